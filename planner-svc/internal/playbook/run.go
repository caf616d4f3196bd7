package playbook

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/jsonref"
	"pawl.dev/services/similar"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/plan"
	"pawl.dev/planner-svc/internal/risk"
)

// run is a playbook and its progress. It serves one request, in one goroutine.
type run struct {
	*Playbook
	tc    *plannerv1.TaskContext
	tools catalog.Set
	lang  lang.Lang

	inputs  string   // JSON object
	states  []state  // of the steps
	calls   []call   // those in the history, in the order of the steps
	branch  string   // the line that is followed: a branch, or "" for the main line
	due     place    // the call that is due on the line of the request
	open    []string // the branches that are due instead of a call
	blocked string   // why the branch of the request cannot go on; the main line returns it once all branches have ended
	before  int      // the number of calls on the way to the due call, without those of branches beside it
	planned int      // the number of steps in the response so far
}

// tool returns a tool of the task, nil if there is none.
func (r *run) tool(id string) *catalog.Tool {
	if t := r.tools.Find(id); t != nil {
		return catalog.NewTool(t)
	}
	return nil
}

// propose returns the step of a call, FINAL after the last one. References to planned steps stay in its input; the error is jsonref.ErrNotYet if
// the step can be proposed only once those steps have ended.
func (r *run) propose(p place) (*plannerv1.PlannedStep, error) {
	if r.atEnd(p) || r.blocked != "" {
		text := r.lang.Pick("The playbook is done.", "playbook 已全部完成。")
		if r.blocked != "" {
			text = r.lang.Say("The branch ends early: %s", "该分支提前结束：%s", r.blocked)
		} else if r.branch != "" {
			text = r.lang.Pick("The branch is done.", "该分支已完成。")
		}
		return &plannerv1.PlannedStep{ToolId: plan.Final, Description: text}, nil
	}
	s := &r.Steps[p.step]
	t := r.tool(s.Tool)
	if t == nil {
		return nil, invalidLine(s.Line, "%s: %s", r.stepName(p.step), r.noTool(s.Tool))
	}
	unresolved, description := !r.ended(s.names, p.step), r.defaultDescription(p)
	input, err := r.fill(s.Input, p, unresolved)
	if err == nil && s.Description != "" {
		description, err = r.fill(s.Description, p, unresolved)
		description = strictjson.Content(description)
	}
	if err != nil {
		return nil, invalidLine(s.Line, "%s (%s): its input or description cannot be made: %w", r.stepName(p.step), s.Tool, err)
	}
	in := s.template
	if risk.ByInput(t) {
		if unresolved {
			return nil, jsonref.ErrNotYet
		}
		if in, err = strictjson.ParseObject(input); err != nil {
			return nil, fmt.Errorf("playbook: %w", err)
		}
	}
	return &plannerv1.PlannedStep{
		ToolId: s.Tool, Description: description, InputJson: input, Missing: t.Missing(s.template),
		Risk: r.raised(risk.Assess(r.lang, t, in), s.Risk), Unresolved: unresolved, Retry: p.failures > 0,
	}, nil
}

func (r *run) defaultDescription(p place) string {
	text := r.Steps[p.step].ID
	if text == defaultID(p.step) {
		text = fmt.Sprintf("Step %d of %d", p.step+1, len(r.Steps))
	}
	if st := &r.states[p.step]; r.Steps[p.step].Foreach != nil && st.count > 0 {
		text += fmt.Sprintf(" (item %d of %d)", p.item+1, st.count)
	}
	return text
}

// fill replaces the references of a call's template. If partial is set, references to planned steps stay, under the ids that the task will give
// those steps.
func (r *run) fill(template string, p place, partial bool) (text string, err error) {
	lookup := r.lookup(p)
	switch {
	case !strings.Contains(template, "${"):
		return template, nil
	case partial:
		text, _, err = jsonref.Partial(template, lookup, func(name string) (string, bool) {
			if _, known := lookup(name); known || r.ended([]string{name}, p.step) {
				return "", false
			}
			return r.states[r.byID[name]].plannedID, true // "" becomes jsonref.ErrNotYet
		})
		return text, err
	}
	if text, err = jsonref.Resolve(template, lookup); err != nil {
		err = fmt.Errorf("%w%s", err, r.missingOutputs(namesIn(template)))
	}
	return text, err
}

// lookup returns a function that finds the values that a call may refer to: the goal, the inputs, its item and index, and the outputs of the steps before it. A step
// that failed has an error instead of an output.
func (r *run) lookup(p place) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if p.step < len(r.Steps) && r.Steps[p.step].Foreach != nil {
			switch items := r.states[p.step].items; {
			case name == itemName && p.item < len(items):
				return items[p.item], true
			case name == indexName:
				return strconv.Itoa(p.item), true
			}
		}
		switch {
		case name == goalName:
			return strictjson.Quote(r.goal()), true
		case name == inputsName && r.Inputs.Schema != "":
			return r.inputs, true
		}
		if i, ok := r.byID[name]; ok && i < p.step && r.states[i].status != "" {
			return r.states[i].output, true
		}
		return "", false
	}
}

func (r *run) goal() string {
	if goal := r.tc.GetGoal(); strings.TrimSpace(goal) != "" {
		return goal
	}
	return r.Goal
}

// output returns the output of a call as references see it.
func output(e *plannerv1.HistoryEntry) string {
	switch {
	case e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS:
		return `{"error":` + strictjson.Quote(reasonOf(e)) + `}`
	case e.GetOutputOmitted():
		return `{"error":"its output was left out, because the outputs of the task are too large"}`
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

// planningFailed returns the error of a playbook that cannot continue after the calls made so far.
func planningFailed(format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED, format, args...)
}

// invalidLine returns the error of a playbook with a line that cannot be carried out.
func invalidLine(line int, format string, args ...any) *errs.Error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, format, args...).With("line", strconv.Itoa(line))
}

// The limits of one response, including the next step.
const (
	maxSteps = 64
	maxBytes = 256 << 10
)

// steps returns the next step and the steps after it that are certain if every step succeeds. The list ends after a step with an
// expectation, because the planner checks it on the actual output. It also ends before a block of branches, and before a step that depends on an
// unknown output, or has an error. If branches are due, there are no steps. A branch that cannot go on ends.
func (r *run) steps() ([]*plannerv1.PlannedStep, error) {
	if err := r.replay(); err != nil {
		return nil, err
	}
	if err := r.checkSteps(); err != nil {
		return nil, err
	}
	var steps []*plannerv1.PlannedStep
	prefix, number := r.numbering()
	for p, size := r.due, 0; len(steps) < maxSteps && !r.atBlock(p); {
		step, err := r.propose(p)
		if err != nil && len(steps) == 0 {
			return nil, err
		}
		if size += proto.Size(step); err != nil || len(steps) > 0 && size > maxBytes {
			break
		}
		steps, r.planned = append(steps, step), r.planned+1
		if step.GetToolId() == plan.Final || len(r.Steps[p.step].Expect) > 0 {
			break
		}
		if prefix != "" && r.Steps[p.step].Foreach == nil {
			r.states[p.step].plannedID = prefix + strconv.FormatUint(number+uint64(len(steps))-1, 10)
		}
		if p, err = r.next(p); err != nil {
			break
		}
	}
	return steps, nil //nolint:nilerr // an error of a later step is reported when it is due
}

// numbering returns the number of the next step in references, and the prefix of the number. Steps of other branches come between those of a branch,
// so that a branch numbers its own steps. The prefix is empty if the number is not known.
func (r *run) numbering() (prefix string, next uint64) {
	if r.branch == "" {
		next, known := plan.NextOrdinal(r.tc.GetHistory())
		if !known {
			return "", 0
		}
		return plan.StepPrefix, next
	}
	next = 1
	for _, e := range r.tc.GetHistory() {
		if e.GetBranch() == r.branch {
			next++
		}
	}
	return plan.BranchStepPrefix, next
}

// checkSteps checks all steps before the first step runs, so that no step has an effect if a later step cannot work. Missing values are no
// error, because a person may supply them.
func (r *run) checkSteps() error {
	if len(r.tc.GetHistory()) > 0 || r.tc.GetBranch() != "" {
		return nil
	}
	var problems []problem
	for i := range r.Steps {
		if wrong := r.stepProblem(i); wrong != "" {
			problems = append(problems, problem{r.Steps[i].Line, fmt.Sprintf("%s: %s", r.stepName(i), wrong)})
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return report(codes.FailedPrecondition, problems, problems[0].message, "; nothing was called")
}

// stepProblem returns why a step cannot work, independent of the outputs of earlier steps; "" if no reason is known.
func (r *run) stepProblem(i int) string {
	s := &r.Steps[i]
	t := r.tool(s.Tool)
	if s.If != nil {
		if holds, err := r.eval(s.If, i); err == nil && holds == "false" {
			return ""
		}
	}
	if t == nil {
		return r.noTool(s.Tool)
	}
	input, err := r.fill(s.Input, place{step: i}, false)
	if err != nil || s.Continue { // an error is reported when the step is due; a step with `on_error: continue` may fail
		return ""
	}
	if wrong := t.Misfit(input); wrong != nil {
		return wrong.Error()
	}
	return ""
}

// noTool returns the message about a tool that the task does not have. The message names similar tools.
func (r *run) noTool(id string) string {
	server, name, _ := strings.Cut(id, "/")
	text := fmt.Sprintf("%s is not one of the task's tools; if its MCP server is inactive or out of reach, or the tool is quarantined, "+
		"see `pawl mcp tools %s` and `pawl mcp tools %[2]s --quarantined`; otherwise correct the playbook", id, server)
	var ids, namesakes []string
	for _, t := range r.tc.GetTools() {
		ids = append(ids, t.GetId())
		if t.GetName() == name && len(namesakes) < 3 {
			namesakes = append(namesakes, t.GetId())
		}
	}
	near := similar.Names(id, ids)
	if len(near) == 0 {
		near = namesakes
	}
	if len(near) > 0 {
		text += " (did you mean " + strings.Join(near, " or ") + "?)"
	}
	return text
}
