package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// Think thinks about a subtask and chooses its next calls. About the request's `current`, the model also reflects in the same turn, by a call of its
// tool `reflect`. If the model has native tools, emit gets the thought as it arrives, else once it is whole.
func (m *Model) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	s, g := m.session(req.GetContext()), &gate{emit: emit}
	s.subtask, s.others, s.hasPlan = req.GetCurrent(), req.GetOthers(), req.GetCurrent() != nil
	t, err := s.takeTurn(ctx, prompt.Render("think", s.tc, req), g)
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
