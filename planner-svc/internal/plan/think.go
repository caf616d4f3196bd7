package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// Think thinks about a subtask and chooses its next calls. About the request's `current`, the model also reflects in the same turn, by a call of its
// tool `reflect`. If the model has native tools, emit gets the thought as it arrives, else once it is whole.
func (m *Model) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	s, g := m.session(req.GetContext()), &gate{emit: emit}
	s.subtask, s.others, s.hasPlan, s.failures = req.GetCurrent(), req.GetOthers(), req.GetCurrent() != nil, repeatedFailures(req.GetContext())
	t, err := s.takeTurn(ctx, prompt.Render("think", s.tc, prompt.Thought{ThinkRequest: req, Failures: s.failures}), g)
	if err != nil {
		return nil, err
	}
	thought := g.shown.String()
	if text := cmp.Or(t.text, t.answer); text != "" {
		if thought, err = g.finish(text); err != nil {
			return nil, err
		}
	}
	return &plannerv1.ThinkResult{Thought: thought, Steps: t.steps, Usage: s.usage(), Reflection: t.reflection, PlanChange: t.planChange}, nil
}

// interpretThought sets the steps and the reflection of t from calls about a subtask. It also sets the problem of each call, and returns the problems
// joined. At the last try, arguments that are not JSON become a JSON string, which no tool accepts. A reflection that the subtask is done excludes
// other calls: the model is told so once, later such calls are dropped.
func (c *conversation) interpretThought(ctx context.Context, t *turn, calls []call) error {
	var problems []error
	var reflection *call
	for i := range calls {
		switch call := &calls[i]; {
		case call.Tool == reflect:
			reflection = call
			if call.problem == nil {
				call.problem = c.readReflection(t, call)
			}
		case len(t.steps) < maxSteps:
			if call.problem != nil && c.lastTry {
				call.Input, call.problem = passOn(call.Input), nil
			}
			if call.problem != nil {
				break
			}
			var step *plannerv1.PlannedStep
			if step, call.problem = c.plannedStep(call, 0, 0); call.problem == nil {
				t.steps = append(t.steps, step)
			}
		}
		problems = append(problems, calls[i].problem)
	}
	if t.reflection.GetDone() && len(t.steps) > 0 {
		if !c.ended && !c.lastTry {
			c.ended = true
			reflection.problem = errors.New("`done` cannot come with other calls: make the calls first and see their results, or call `reflect` alone")
			return errors.Join(append(problems, reflection.problem)...)
		}
		c.log.WarnContext(ctx, "the model says that a subtask is done and calls tools; the calls are dropped", "task_id", c.tc.GetTaskId(), "subtask", c.subtask.GetId(), "calls", len(t.steps))
		t.steps = nil
	}
	return errors.Join(problems...)
}

// maxSameFailures is how often a call about a subtask may fail in the same way.
const maxSameFailures = 2

// repeatedFailures returns a step for each call that has failed maxSameFailures times with the same input and the same error. It ignores steps before
// the last success of a tool that may change something, because the calls may succeed now.
func repeatedFailures(tc *plannerv1.TaskContext) (failures []*plannerv1.HistoryEntry) {
	count := map[[3]string]int{}
	for _, e := range slices.Backward(tc.GetHistory()) {
		isRead := e.GetToolId() == ReadOutputID || catalog.Find(tc.GetTools(), e.GetToolId()).GetEffect() == commonv1.Effect_EFFECT_READ
		switch e.GetResult() {
		case plannerv1.StepResult_STEP_RESULT_SUCCESS:
			if !isRead {
				return failures
			}
		case plannerv1.StepResult_STEP_RESULT_ERROR:
			way := [3]string{e.GetToolId(), strictjson.Compact(e.GetInputJson()), e.GetError()}
			if count[way]++; count[way] == maxSameFailures {
				failures = append(failures, e)
			}
		}
	}
	return failures
}

// repeatedFailure returns an error for a call that has failed maxSameFailures times in the same way.
func (s *session) repeatedFailure(toolID, input string) error {
	for _, e := range s.failures {
		if e.GetToolId() == toolID && strictjson.Compact(e.GetInputJson()) == strictjson.Compact(input) {
			return fmt.Errorf("it would be a loop: %s and a later call with the same input failed with the same error, and nothing was changed since. "+
				"Change the input or what makes the call fail, call another tool, or call `reflect` alone with \"done\": false and say what is missing", e.GetStepId())
		}
	}
	return nil
}

// passOn returns arguments that are not a JSON object as JSON.
func passOn(arguments json.RawMessage) json.RawMessage {
	if json.Valid(arguments) {
		return arguments
	}
	return json.RawMessage(strictjson.Quote(strings.ToValidUTF8(string(arguments), "\uFFFD")))
}

// readReflection sets the reflection and the plan change of t from a call of `reflect`.
func (c *conversation) readReflection(t *turn, call *call) error {
	form, err := schema.Compile(reflectSchema)
	if err != nil {
		return err
	}
	answer, err := decode[plannerv1.ReflectResponse](form, &llm.Reply{Text: string(call.Input)})
	if err != nil {
		return err
	}
	if err := c.checkReflection(answer); err != nil {
		return err
	}
	t.reflection = &plannerv1.Reflection{Done: answer.GetDone(), Summary: answer.GetSummary(), Next: answer.GetNext()}
	t.planChange = answer.GetPlanChange()
	return nil
}
