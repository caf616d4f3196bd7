package playbook

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
)

// run is a playbook with what was done of it. It is used for one answer, by one goroutine.
type run struct {
	*Playbook
	tc    *plannerv1.TaskContext
	lang  lang.Lang
	cache *catalog.Cache
	tools map[string]*catalog.Tool // those that were looked at
}

// tool returns a tool of the task, nil if there is none.
func (r *run) tool(id string) *catalog.Tool {
	t, seen := r.tools[id]
	if !seen {
		if found := catalog.Find(r.tc.GetTools(), id); found != nil {
			t = r.cache.Tool(found)
		}
		r.tools[id] = t
	}
	return t
}

// planned is a step with its references resolved.
type planned struct {
	*Step
	description string
	input       string
}

// next returns the step after the history, nil where nothing is left. The history must be that of the playbook, and have
// come out as it expects.
func (r *run) next() (*planned, error) {
	if err := r.verify(); err != nil {
		return nil, err
	}
	i := len(r.tc.GetHistory())
	if i == len(r.Steps) {
		return nil, nil
	}
	return r.plan(i)
}

// verify checks what was done: the right tools, no failure where the playbook stops at one, and every expectation.
func (r *run) verify() error {
	history := r.tc.GetHistory()
	if len(history) > len(r.Steps) {
		return failed("the task has done %d steps, but the playbook has %d; it is not the one that the task began with", len(history), len(r.Steps))
	}
	for i, e := range history {
		s := &r.Steps[i]
		if e.GetToolId() != s.Tool {
			return failed("%s of the playbook calls %s, but the task called %s there; it is not the playbook that the task began with", r.stepName(i), s.Tool, e.GetToolId())
		}
		if e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS {
			if s.Continue || e.GetResult() == plannerv1.StepResult_STEP_RESULT_SKIPPED {
				continue // the second: a person said to go on without it
			}
			return failed("%s (%s) of the playbook failed: %s", r.stepName(i), s.Tool, reasonOf(e)).With("line", strconv.Itoa(s.Line))
		}
		for _, x := range s.Expect {
			if err := x.holds(output(e), r.lookup(i+1)); err != nil {
				return failed("%s (%s) of the playbook did not come out as expected (line %d): %w", r.stepName(i), s.Tool, x.Line, err).
					With("line", strconv.Itoa(x.Line))
			}
		}
	}
	return nil
}

// plan resolves the references of a step.
func (r *run) plan(i int) (*planned, error) {
	s := &r.Steps[i]
	if r.tool(s.Tool) == nil {
		return nil, unusable(s.Line, "%s: %s", r.stepName(i), r.noTool(s.Tool))
	}
	input, err := r.resolve(s.Input, i)
	if err != nil {
		return nil, unusable(s.Line, "%s (%s): its input cannot be made: %w", r.stepName(i), s.Tool, err)
	}
	description, err := r.description(i)
	if err != nil {
		return nil, unusable(s.Line, "%s (%s): its description cannot be made: %w", r.stepName(i), s.Tool, err)
	}
	return &planned{Step: s, input: input, description: description}, nil
}

func (r *run) description(i int) (string, error) {
	if r.Steps[i].Description == "" {
		return r.defaultDescription(i), nil
	}
	return r.text(r.Steps[i].Description, i)
}

// resolve puts the outputs of the first n steps into a template.
func (r *run) resolve(template string, n int) (string, error) {
	if !strings.Contains(template, "${") {
		return template, nil
	}
	return jsonref.Resolve(template, r.lookup(n))
}

func (r *run) defaultDescription(i int) string {
	if id := r.Steps[i].ID; id != defaultID(i) {
		return id
	}
	return fmt.Sprintf("Step %d of %d", i+1, len(r.Steps))
}

// text resolves a template that is a text. A value that is no text is written as JSON.
func (r *run) text(template string, n int) (string, error) {
	raw, err := r.resolve(template, n)
	return strictjson.Content(raw), err
}

// lookup gives the goal and the outputs of the first n steps. A step that failed has an error instead of an output.
func (r *run) lookup(n int) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if name == goalName {
			goal := r.tc.GetGoal()
			if strings.TrimSpace(goal) == "" {
				goal = r.Goal
			}
			return strictjson.Quote(goal), true
		}
		if i, ok := r.byID[name]; ok && i < n && i < len(r.tc.GetHistory()) {
			return output(r.tc.GetHistory()[i]), true
		}
		return "", false
	}
}

// output is what references see of a step.
func output(e *plannerv1.HistoryEntry) string {
	switch {
	case e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS:
		return `{"error":` + strictjson.Quote(reasonOf(e)) + `}`
	case e.GetOutputJson() == "":
		return `{"message":""}`
	}
	return e.GetOutputJson()
}

func reasonOf(e *plannerv1.HistoryEntry) string {
	switch {
	case e.GetResult() == plannerv1.StepResult_STEP_RESULT_CANCELLED:
		return "it was cancelled"
	case e.GetError() == "":
		return "no reason was given"
	}
	return e.GetError()
}

// failed is a playbook that ran into something that it does not go on from.
func failed(format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED, format, args...)
}

// unusable is a playbook that refers to something that is not there.
func unusable(line int, format string, args ...any) *errs.Error {
	e := errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, format, args...)
	return e.With("line", strconv.Itoa(line))
}

// precondition turns the error of a playbook that does not parse into one of planning: the request that planned was right.
func precondition(err error) error {
	var e *errs.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Code = codes.FailedPrecondition
	return &c
}
