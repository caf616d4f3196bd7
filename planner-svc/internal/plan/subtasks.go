package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

const (
	subtaskItems = `"items":{"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,40}$"},"title":{"type":"string","minLength":1},` +
		`"description":{"type":"string","minLength":1},"acceptance":{"type":"string","minLength":1},"depends_on":{"type":"array","items":{"type":"string"}},` +
		`"tool_ids":{"type":"array","items":{"type":"string"}}},"required":["id","title","description","acceptance","depends_on","tool_ids"],"additionalProperties":false}`
	planSchema = `{"type":"object","properties":{"main_task":{"type":"string"},"risk":{"type":"string","enum":["LOW","MEDIUM","HIGH"]},` +
		`"subtasks":{"type":"array","minItems":1,` + subtaskItems + `}},"required":["main_task","risk","subtasks"],"additionalProperties":false}`
	reflectSchema = `{"type":"object","properties":{"done":{"type":"boolean"},"summary":{"type":"string"},"next":{"type":"string"},"plan_change":{"type":["object","null"],"properties":{` +
		`"add":{"type":"array",` + subtaskItems + `},"drop":{"type":"array","items":{"type":"string"}},"order":{"type":"array","items":{"type":"string"}},"reason":{"type":"string"}},` +
		`"required":["reason"],"additionalProperties":false}},"required":["done","summary","next"],"additionalProperties":false}`
)

// CreatePlan divides a goal into subtasks.
func (m *Model) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	const defaultMax = 10
	maxSubtasks := int(cmp.Or(req.GetMaxSubtasks(), defaultMax))
	s := m.session(req.GetContext())
	data := map[string]any{"MaxSubtasks": maxSubtasks, "Problem": req.GetProblem(), "Tools": toolsOf(s.tc, &s.indexes).shown}
	return askAboutTask(ctx, s, "create_plan", data, planSchema, func(a *planAnswer, usage *commonv1.Usage) (*plannerv1.CreatePlanResponse, error) {
		if n := len(a.Subtasks); n > maxSubtasks {
			return nil, fmt.Errorf("there are %d subtasks; at most %d are allowed", n, maxSubtasks)
		}
		l, rated := prompt.LangOf(s.tc), risk.Parse(a.Risk)
		assessed := risk.Raise(risk.OfTools(l, s.tidy(a.Subtasks)), rated, ratedTask(l, rated))
		subtasks, err := ordered(a.Subtasks)
		return &plannerv1.CreatePlanResponse{MainTask: prompt.Line(a.MainTask), Subtasks: subtasks, Risk: assessed, Usage: usage}, err
	})
}

type planAnswer struct {
	MainTask string `json:"main_task"`
	Risk     string
	Subtasks []*plannerv1.Subtask
}

// tidy puts the titles of subtasks on one line, keeps only the tools that the task has, and returns these.
func (s *session) tidy(subtasks []*plannerv1.Subtask) (needed []*catalog.Tool) {
	const maxTitle = 100
	tools := toolsOf(s.tc, &s.indexes)
	for _, st := range subtasks {
		st.Title = lang.Clip(prompt.Line(st.GetTitle()), maxTitle)
		var ids []string
		for _, name := range st.GetToolIds() {
			if t := tools.lookup(name); t != nil && !slices.Contains(ids, t.GetId()) {
				ids, needed = append(ids, t.GetId()), append(needed, catalog.NewTool(t))
			}
		}
		st.ToolIds = ids
	}
	return needed
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

// Reflect decides whether a subtask is done.
func (m *Model) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	s := m.session(req.GetContext())
	s.subtask, s.others = req.GetCurrent(), req.GetOthers()
	return askAboutTask(ctx, s, "reflect", req, reflectSchema, func(res *plannerv1.ReflectResponse, usage *commonv1.Usage) (*plannerv1.ReflectResponse, error) {
		if !res.GetDone() && strings.TrimSpace(res.GetNext()) == "" {
			return nil, errors.New("`next` must say what to do, because the subtask is not done")
		}
		res.Usage = usage
		return res, s.checkReflection(res)
	})
}

// checkReflection shortens the texts of a reflection, and checks its plan change. It drops the change if that is empty, or if the request
// is about no subtask of a plan.
func (s *session) checkReflection(res *plannerv1.ReflectResponse) error {
	const maxText = 2000
	res.Summary, res.Next = lang.Clip(strings.TrimSpace(res.GetSummary()), maxText), lang.Clip(strings.TrimSpace(res.GetNext()), maxText)
	if res.GetDone() {
		res.Next = ""
	}
	change := res.GetPlanChange()
	if s.subtask == nil || len(change.GetAdd())+len(change.GetDrop())+len(change.GetOrder()) == 0 {
		res.PlanChange = nil
		return nil
	}
	return s.checkChange(change)
}

// checkChange checks a plan change against the subtasks that the request tells of.
func (s *session) checkChange(change *plannerv1.PlanChange) error {
	status := map[string]string{s.subtask.GetId(): "IN_PROGRESS"}
	for _, other := range s.others {
		status[other.GetId()] = other.GetStatus()
	}
	var all []*plannerv1.Subtask
	for _, id := range slices.Sorted(maps.Keys(status)) {
		if !slices.Contains(change.GetDrop(), id) {
			all = append(all, &plannerv1.Subtask{Id: id})
		}
	}
	kept := len(all)
	for _, st := range change.GetAdd() {
		if status[st.GetId()] != "" { // also if the change drops it
			return fmt.Errorf("plan_change: the id %q is taken; give the new subtask another one", st.GetId())
		}
		all = append(all, st)
	}
	all, err := ordered(all)
	if err != nil {
		return fmt.Errorf("plan_change: %w", err)
	}
	change.Add, change.Reason = all[kept:], prompt.Line(change.GetReason()) // the kept ones come first, because they depend on none here
	s.tidy(change.GetAdd())
	for _, id := range slices.Concat(change.GetDrop(), change.GetOrder()) {
		isNew := slices.ContainsFunc(change.GetAdd(), func(st *plannerv1.Subtask) bool { return st.GetId() == id })
		if !isNew && status[id] != "PENDING" && status[id] != "BLOCKED" {
			return fmt.Errorf("plan_change: %q is not a subtask that has not started; only those can be dropped or ordered", id)
		}
	}
	return nil
}

type decideAnswer struct {
	Decision, Reason, Question string
	DelegateTo                 string `json:"delegate_to"`
}

const decideSchema = `{"type":"object","properties":{"decision":{"type":"string","enum":["REPLY","SILENT","ASK_HUMAN","DELEGATE"]},"reason":{"type":"string"},` +
	`"question":{"type":"string"},"delegate_to":{"type":"string"}},"required":["decision","reason"],"additionalProperties":false}`

// Decide decides whether and how an agent responds to a message.
func (m *Model) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return askAboutTask(ctx, m.session(req.GetContext()), "decide", req, decideSchema, func(a *decideAnswer, usage *commonv1.Usage) (*plannerv1.DecideResponse, error) {
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
