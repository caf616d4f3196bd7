package offline

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"

	"pawl.dev/planner-svc/internal/lang"
)

// CreatePlan returns a plan of one subtask, the goal, if the planner can plan a step for it. Any other goal needs a language model, and so does another plan for a goal.
func (*Planner) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	w := newWork(ctx, req.GetContext())
	why := ""
	switch {
	case req.GetProblem() != "":
		why = "it can make no other plan than the one that was refused"
	case len(w.notUnderstood) > 0:
		why = "it does not understand: " + strings.Join(w.notUnderstood, ", ")
	case w.next == nil:
		why = "it finds no step for it"
	case len(w.next.GetMissing()) > 0:
		why = "it does not find a value for " + strings.Join(w.next.GetMissing(), ", ") + " of " + w.next.GetToolId()
	}
	if why != "" {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_PLANNING_FAILED,
			"the planner %q, which uses no language model, cannot plan this goal: %s. Name a model that can: `--model NAME`, field `model`; `pawl models` lists them", Name, why)
	}
	subtask := &plannerv1.Subtask{Id: "goal", Title: lang.Title(w.tc.GetGoal()), Description: w.tc.GetGoal(), Acceptance: w.l.Pick("Each part of the goal has a result.", "目标的每一部分都有结果。")}
	for _, d := range w.demands {
		subtask.ToolIds = append(subtask.ToolIds, d.choice.GetId())
	}
	return &plannerv1.CreatePlanResponse{MainTask: subtask.Title, Subtasks: []*plannerv1.Subtask{subtask}, Risk: w.flowRisk(), Usage: &commonv1.Usage{}}, nil
}

// Think chooses the next step as PlanSteps does.
func (*Planner) Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(string) error) (*plannerv1.ThinkResult, error) {
	w := newWork(ctx, req.GetContext())
	res := &plannerv1.ThinkResult{Thought: w.nextText(), Reflection: w.reflect(), Usage: &commonv1.Usage{}}
	if w.next != nil {
		res.Steps = []*plannerv1.PlannedStep{w.next}
	}
	return res, emit(res.Thought)
}

// Reflect says that a subtask is done once no step is left and none has failed.
func (*Planner) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	r := newWork(ctx, req.GetContext()).reflect()
	return &plannerv1.ReflectResponse{Done: r.GetDone(), Summary: r.GetSummary(), Next: r.GetNext(), Usage: &commonv1.Usage{}}, nil
}

func (w *work) reflect() *plannerv1.Reflection {
	const maxSummary = 500
	if w.next != nil {
		return &plannerv1.Reflection{Next: w.nextText()}
	}
	paragraphs, fulfilled := w.answer("")
	r := &plannerv1.Reflection{Done: fulfilled, Summary: lang.Clip(strings.Join(paragraphs, " "), maxSummary)}
	if !fulfilled {
		r.Next = w.nextText()
	}
	return r
}

// nextText describes the next step.
func (w *work) nextText() string {
	if w.next == nil {
		return w.l.Pick("Nothing is left to do.", "没有剩余的步骤。")
	}
	return cmp.Or(w.next.GetDescription(), w.next.GetToolId())
}
