package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// createPlan returns the Run that asks the planner for a plan of subtasks and its risk.
func (s *Session) createPlan(c *plannerv1.TaskContext, q flow.CreatePlan) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.PlanCreated{Tools: &storagev1.ToolsLoaded{}, Name: flow.Name(validUTF8(c.GetGoal())), Risk: &storagev1.RiskNote{}}
		if err := s.askPlan(ctx, c, q, &out); err != nil {
			out.Err = errorNote(fmt.Errorf("making the plan: %w", err))
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

func (s *Session) askPlan(ctx context.Context, c *plannerv1.TaskContext, q flow.CreatePlan, out *flow.PlanCreated) error {
	tools, err := s.toolset(ctx)
	if err != nil {
		return err
	}
	tools.giveTo(c)
	out.Tools = tools.loaded
	if skipped := tools.loaded.GetSkipped(); tools.loaded.GetToolCount() == 0 && len(skipped) > 0 {
		return errs.New(codes.FailedPrecondition, skipped[0].GetReason(), "the task has no tools: %s", skipped[0].GetMessage())
	}
	plan, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.CreatePlanResponse, error) {
		return s.r.planner.CreatePlan(ctx, &plannerv1.CreatePlanRequest{Context: c, MaxSubtasks: s.head.GetPlanOptions().GetMaxSubtasks(), Problem: q.Problem}, o...)
	})
	if err != nil {
		return err
	}
	out.MainTask = cmp.Or(validUTF8(plan.GetMainTask()), out.Name)
	out.Name = flow.Name(out.MainTask)
	for _, st := range plan.GetSubtasks() {
		out.Subtasks = append(out.Subtasks, plannedSubtask(st))
	}
	out.Risk = riskNote(plan.GetRisk())
	return nil
}

func plannedSubtask(st *plannerv1.Subtask) *storagev1.PlannedSubtask {
	return &storagev1.PlannedSubtask{
		Id: validUTF8(st.GetId()), Title: validUTF8(st.GetTitle()), Description: validUTF8(st.GetDescription()), Acceptance: validUTF8(st.GetAcceptance()),
		DependsOn: st.GetDependsOn(), ToolIds: st.GetToolIds(),
	}
}

// subtaskView is a lane's subtask and its plan, as the planner sees them.
type subtaskView struct {
	current *plannerv1.Subtask
	others  []*plannerv1.SubtaskState
	inputs  []string
	note    string // why its plan change was not applied; may be empty
}

// subtaskOf returns the planner's view of a lane's subtask.
func subtaskOf(log *history.Log, l *storagev1.Lane) subtaskView {
	v := subtaskView{current: &plannerv1.Subtask{Id: l.GetSubtaskId()}}
	if log.Plan == nil {
		return v
	}
	for _, st := range log.Plan.Subtasks {
		if st.GetId() == l.GetSubtaskId() {
			v.note = st.Note
			v.current = &plannerv1.Subtask{
				Id: st.GetId(), Title: st.GetTitle(), Description: st.GetDescription(), Acceptance: st.GetAcceptance(),
				DependsOn: st.GetDependsOn(), ToolIds: st.GetToolIds(),
			}
			continue
		}
		v.others = append(v.others, subtaskState(st))
	}
	v.inputs = slices.Clone(log.Inputs)
	return v
}

// subtaskState returns the planner's view of a subtask.
func subtaskState(st *history.Subtask) *plannerv1.SubtaskState {
	return &plannerv1.SubtaskState{
		Id: st.GetId(), Title: st.GetTitle(), Summary: st.Summary,
		Status: strings.TrimPrefix(st.Status.String(), "SUBTASK_STATUS_"),
	}
}

// subtaskContext returns the planner's view of a lane's subtask: the task, and the history of the subtask alone.
func (s *Session) subtaskContext(t *flow.Task, log *history.Log, l *storagev1.Lane) *plannerv1.TaskContext {
	return s.contextOf(t, log, l, func(id string) bool { return id == l.GetSubtaskId() })
}

// think returns the Run that lets the planner think about a subtask. Pieces of the thought that arrive close together become one event.
func (s *Session) think(c *plannerv1.TaskContext, v subtaskView, q flow.Think) Run {
	return s.askAbout(c, v, "thinking about", func(ctx context.Context, tools *toolset, out *flow.Thought, emit func(flow.Input)) error {
		observation := strings.TrimSpace(q.Observation + "\n" + v.note)
		req := &plannerv1.ThinkRequest{Observation: observation, Current: v.current, Others: v.others, Inputs: v.inputs}
		res, pending, err := s.askThought(ctx, c, req, &out.Usage, emit)
		out.Text = pending
		for _, p := range res.GetSteps() {
			step := tools.propose(p)
			if step == nil { // its call fails
				step = plannedStep(p)
				step.Problem = fmt.Sprintf("the task has no tool %q", step.ToolID)
			}
			step.Problem = cmp.Or(step.Problem, tools.repeatedFailure(c.GetHistory(), step))
			out.Steps = append(out.Steps, step)
		}
		if r := res.GetReflection(); r != nil {
			out.Reflection = &storagev1.Reflection{Done: r.GetDone(), Summary: validUTF8(r.GetSummary()), Next: validUTF8(r.GetNext())}
		}
		out.Change = planChange(res.GetPlanChange())
		return err
	})
}

// maxSameFailures is how often a subtask's call with the same input may fail with the same error.
const maxSameFailures = 2

// repeatedFailure returns why a step is not called: it failed maxSameFailures times in the same way, and no tool that may change something has succeeded
// since. It returns "" if the step may be called. The planner refuses such a step too, so that the model chooses another one at once.
func (t *toolset) repeatedFailure(history []*plannerv1.HistoryEntry, step *flow.PlannedStep) string {
	count := map[string]int{}
	for _, e := range slices.Backward(history) {
		changes := e.GetToolId() != flow.ReadOutput && t.find(e.GetToolId()).GetEffect() != commonv1.Effect_EFFECT_READ
		switch {
		case e.GetResult() == plannerv1.StepResult_STEP_RESULT_SUCCESS && changes:
			return ""
		case e.GetResult() != plannerv1.StepResult_STEP_RESULT_ERROR || e.GetOutcome() != commonv1.Outcome_OUTCOME_KNOWN || e.GetToolId() != step.ToolID:
		case strictjson.Compact(e.GetInputJson()) == strictjson.Compact(step.InputJSON):
			if count[e.GetError()]++; count[e.GetError()] == maxSameFailures {
				return "the call was not made: with the same input it failed " + strconv.Itoa(maxSameFailures) + " times with the same error, and nothing was changed since"
			}
		}
	}
	return ""
}

// reflect returns the Run that asks whether a subtask is done.
func (s *Session) reflect(c *plannerv1.TaskContext, v subtaskView) Run {
	return s.askAbout(c, v, "reflecting on", func(ctx context.Context, _ *toolset, out *flow.Thought, _ func(flow.Input)) error {
		res, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.ReflectResponse, error) {
			return s.r.planner.Reflect(ctx, &plannerv1.ReflectRequest{Context: c, Current: v.current, Others: v.others}, o...)
		})
		out.Reflection = &storagev1.Reflection{Done: res.GetDone(), Summary: validUTF8(res.GetSummary()), Next: validUTF8(res.GetNext())}
		out.Change = planChange(res.GetPlanChange())
		return err
	})
}

// askAbout returns the Run that asks the planner about a subtask with ask, which fills out, and emits out.
func (s *Session) askAbout(
	c *plannerv1.TaskContext, v subtaskView, doing string, ask func(ctx context.Context, tools *toolset, out *flow.Thought, emit func(flow.Input)) error,
) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.Thought
		tools, err := s.toolset(ctx)
		if err == nil {
			tools.giveTo(c)
			err = ask(ctx, tools, &out, emit)
		}
		if err != nil {
			out = flow.Thought{Text: out.Text, Usage: out.Usage, Err: errorNote(fmt.Errorf("%s the subtask %q: %w", doing, v.current.GetTitle(), err))}
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// askThought makes the Think call. It emits the pieces of the thought except the last, which it returns. A thought that broke off, as in
// a crash of the planner, begins again.
func (s *Session) askThought(
	ctx context.Context, c *plannerv1.TaskContext, req *plannerv1.ThinkRequest, usage **storagev1.Usage, emit func(flow.Input),
) (res *plannerv1.ThinkResult, pending string, err error) {
	shown := false
	res, err = askPlanner(ctx, s, c, usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (res *plannerv1.ThinkResult, err error) {
		if req.Context = c; shown {
			shown = false
			emit(flow.Thinking{Again: true})
		}
		stream, err := s.r.planner.Think(ctx, req, o...)
		if err != nil {
			return nil, err
		}
		buffer := &textBuffer{delay: s.r.cfg.TextDelay, show: func(text string) { shown = true; emit(flow.Thinking{Text: text}) }}
		for err == nil {
			var msg *plannerv1.ThinkResponse
			if msg, err = stream.Recv(); err == nil {
				buffer.add(validUTF8(msg.GetText()))
				res = cmp.Or(msg.GetResult(), res)
			}
		}
		pending = buffer.end()
		switch {
		case !errors.Is(err, io.EOF):
			return nil, err
		case res == nil:
			return nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR, "the planner ended the thought without a result")
		}
		if !shown && pending == "" {
			pending = validUTF8(res.GetThought())
		}
		return res, nil
	})
	return res, pending, err
}

func planChange(p *plannerv1.PlanChange) *flow.PlanChange {
	if p == nil || len(p.GetAdd())+len(p.GetDrop())+len(p.GetOrder()) == 0 {
		return nil
	}
	out := &flow.PlanChange{Drop: p.GetDrop(), Order: p.GetOrder(), Reason: validUTF8(p.GetReason())}
	for _, st := range p.GetAdd() {
		out.Add = append(out.Add, plannedSubtask(st))
	}
	return out
}
