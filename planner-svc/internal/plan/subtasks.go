package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/lang"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

// CreatePlan divides a goal into subtasks.
func (m *Model) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	const defaultMax = 10
	maxSubtasks := int(cmp.Or(req.GetMaxSubtasks(), defaultMax))
	s := m.session(ctx, req.GetContext())
	data := map[string]any{"MaxSubtasks": maxSubtasks, "Problem": req.GetProblem(), "Tools": toolsOf(s).shown}
	return askAboutTask(ctx, s, "create_plan", data, func(a *planAnswer, usage *commonv1.Usage) (*plannerv1.CreatePlanResponse, error) {
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
	for _, st := range subtasks {
		st.Title = lang.Clip(prompt.Line(st.GetTitle()), maxTitle)
		var ids []string
		for _, name := range st.GetToolIds() {
			if tool := s.all.Lookup(name); tool != nil && !slices.Contains(ids, tool.GetId()) {
				ids, needed = append(ids, tool.GetId()), append(needed, catalog.NewTool(tool))
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

// Reflect decides whether a subtask is done.
func (m *Model) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	s := m.session(ctx, req.GetContext())
	s.subtask, s.others = req.GetCurrent(), req.GetOthers()
	return askAboutTask(ctx, s, "reflect", req, func(res *plannerv1.ReflectResponse, usage *commonv1.Usage) (*plannerv1.ReflectResponse, error) {
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

// Think thinks about a subtask and chooses its next calls. About the request's `current`, the model also reflects in the same turn, by a call of its
// tool `reflect`. If the model has native tools, emit gets the thought as it arrives, else once it is whole.
func (m *Model) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	s, g := m.session(ctx, req.GetContext()), &gate{emit: emit}
	s.subtask, s.others, s.hasPlan, s.failures = req.GetCurrent(), req.GetOthers(), req.GetCurrent() != nil, s.repeatedFailures()
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
// the last success of a tool that may change something, because the calls may succeed now, and calls that did not reach the tool although their input
// is valid, because its server may be back.
func (s *session) repeatedFailures() (failures []*plannerv1.HistoryEntry) {
	count := map[[3]string]int{}
	for _, e := range slices.Backward(s.tc.GetHistory()) {
		tool := catalog.NewTool(s.all.Find(e.GetToolId()))
		switch isSuccess := e.GetResult() == plannerv1.StepResult_STEP_RESULT_SUCCESS; {
		case isSuccess && !tool.Reads() && e.GetToolId() != ReadOutputID:
			return failures
		case e.GetResult() != plannerv1.StepResult_STEP_RESULT_ERROR:
		case e.GetOutcome() == commonv1.Outcome_OUTCOME_KNOWN, tool.Schema != nil && tool.Schema.Validate(e.GetInputJson()) != nil:
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
	form, err := schema.Compile(prompt.Schema(reflect))
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
