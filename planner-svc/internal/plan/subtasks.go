package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/prompt"
)

const planSchema = `{"type":"object","properties":{"main_task":{"type":"string"},"subtasks":{"type":"array","minItems":1,"items":{"type":"object","properties":{` +
	`"id":{"type":"string","minLength":1},"title":{"type":"string","minLength":1},"description":{"type":"string","minLength":1},"depends_on":{"type":"array","items":{"type":"string"}}},` +
	`"required":["id","title","description","depends_on"],"additionalProperties":false}}},"required":["main_task","subtasks"],"additionalProperties":false}`

// CreatePlan divides a goal into subtasks.
func (m *Model) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	const defaultMax = 10
	maxSubtasks := int(cmp.Or(req.GetMaxSubtasks(), defaultMax))
	return askAboutTask(ctx, m, "create_plan", req, planSchema, func(res *plannerv1.CreatePlanResponse, usage *commonv1.Usage) (_ *plannerv1.CreatePlanResponse, err error) {
		if n := len(res.GetSubtasks()); n > maxSubtasks {
			return nil, fmt.Errorf("there are %d subtasks; at most %d are allowed", n, maxSubtasks)
		}
		for _, st := range res.GetSubtasks() {
			st.Title = prompt.Line(st.GetTitle())
		}
		res.MainTask, res.Usage = prompt.Line(res.GetMainTask()), usage
		res.Subtasks, err = ordered(res.GetSubtasks())
		return res, err
	})
}

// ordered returns the subtasks sorted so that each follows its dependencies. Duplicate ids, unknown dependencies and cycles are errors.
func ordered(subtasks []*plannerv1.Subtask) ([]*plannerv1.Subtask, error) {
	byID := map[string]*plannerv1.Subtask{}
	for _, st := range subtasks {
		if byID[st.GetId()] != nil {
			return nil, fmt.Errorf("the id %q is used twice", st.GetId())
		}
		byID[st.GetId()] = st
	}
	var order []*plannerv1.Subtask
	var path []string // ids from a subtask to the dependency being visited
	var visit func(id string) error
	visit = func(id string) error {
		switch st := byID[id]; {
		case st == nil:
			return fmt.Errorf("%s depends on %q, which is not a subtask", strings.Join(path, " → "), id)
		case slices.Contains(path, id):
			return fmt.Errorf("the dependencies have a cycle: %s → %s", strings.Join(path[slices.Index(path, id):], " → "), id)
		case slices.Contains(order, st):
			return nil
		default:
			path = append(path, id)
			for _, dependency := range st.GetDependsOn() {
				if err := visit(dependency); err != nil {
					return err
				}
			}
			path, order = path[:len(path)-1], append(order, st)
			return nil
		}
	}
	for _, st := range subtasks {
		if err := visit(st.GetId()); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// Think thinks about a subtask and chooses its next calls. If the model has native tools, emit gets the thought as it arrives.
func (m *Model) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	s := m.session(req.GetContext())
	t, err := s.takeTurn(ctx, prompt.Render("think", s.tc, req), &gate{emit: emit})
	if err != nil {
		return nil, err
	}
	return &plannerv1.ThinkResult{Thought: cmp.Or(t.text, t.answer), Steps: t.steps, Usage: s.usage()}, nil
}

// SelectTools chooses the calls that a message needs.
func (m *Model) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	s := m.session(req.GetContext())
	t, err := s.takeTurn(ctx, prompt.Render("select_tools", s.tc, nil), &gate{})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(t.steps, (*plannerv1.PlannedStep).GetUnresolved) {
		return nil, s.unusableReply(1, "a call refers to the output of another call, but the calls must be independent", s.reply)
	}
	return &plannerv1.SelectToolsResponse{Steps: t.steps, Usage: s.usage()}, nil
}

const reflectSchema = `{"type":"object","properties":{"done":{"type":"boolean"},"summary":{"type":"string"},"next":{"type":"string"}},"required":["done","summary","next"],"additionalProperties":false}`

// Reflect decides whether a subtask is done.
func (m *Model) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	return askAboutTask(ctx, m, "reflect", req, reflectSchema, func(res *plannerv1.ReflectResponse, usage *commonv1.Usage) (*plannerv1.ReflectResponse, error) {
		if res.GetDone() {
			res.Next = ""
		} else if strings.TrimSpace(res.GetNext()) == "" {
			return nil, errors.New("`next` must say what to do, because the subtask is not done")
		}
		res.Usage = usage
		return res, nil
	})
}

type decideAnswer struct {
	Decision, Reason, Question string
	DelegateTo                 string `json:"delegate_to"`
}

const decideSchema = `{"type":"object","properties":{"decision":{"type":"string","enum":["REPLY","SILENT","ASK_HUMAN","DELEGATE"]},"reason":{"type":"string"},` +
	`"question":{"type":"string"},"delegate_to":{"type":"string"}},"required":["decision","reason"],"additionalProperties":false}`

// Decide decides whether and how an agent responds to a message.
func (m *Model) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return askAboutTask(ctx, m, "decide", req, decideSchema, func(a *decideAnswer, usage *commonv1.Usage) (*plannerv1.DecideResponse, error) {
		res := &plannerv1.DecideResponse{Decision: plannerv1.Decision(plannerv1.Decision_value["DECISION_"+a.Decision]), Reason: a.Reason, Usage: usage}
		switch res.GetDecision() {
		case plannerv1.Decision_DECISION_ASK_HUMAN:
			if res.Question = a.Question; strings.TrimSpace(a.Question) == "" {
				return nil, errors.New("`question` is missing")
			}
		case plannerv1.Decision_DECISION_DELEGATE:
			if res.DelegateTo = a.DelegateTo; !slices.Contains(req.GetAgents(), a.DelegateTo) {
				return nil, errors.New("`delegate_to` must be one of the agents")
			}
		}
		return res, nil
	})
}
