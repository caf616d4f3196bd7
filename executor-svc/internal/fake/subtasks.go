package fake

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// CreatePlan implements PlannerService: the plan is Subtasks.
func (p *Planner) CreatePlan(context.Context, *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	return &plannerv1.CreatePlanResponse{MainTask: "the main task", Subtasks: p.Subtasks}, nil
}

// AssessFlowRisk implements PlannerService.
func (*Planner) AssessFlowRisk(context.Context, *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	return &plannerv1.AssessFlowRiskResponse{Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "a test"}}, nil
}

// Think implements PlannerService: each subtask makes the calls of Steps, one in each thought, with the subtask's id in the text; then it is done.
// ThinkFn may replace that.
func (p *Planner) Think(req *plannerv1.ThinkRequest, stream grpc.ServerStreamingServer[plannerv1.ThinkResponse]) error {
	id, n := req.GetCurrent().GetId(), len(req.GetContext().GetHistory())
	for _, piece := range []string{"thinking about ", id} {
		if err := stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Text{Text: piece}}); err != nil {
			return err
		}
	}
	var res *plannerv1.ThinkResult
	switch {
	case p.ThinkFn != nil:
		res = p.ThinkFn(req)
	case n < len(p.Steps):
		res = &plannerv1.ThinkResult{
			Steps:      []*plannerv1.PlannedStep{{ToolId: p.Steps[n].GetToolId(), InputJson: fmt.Sprintf(`{"text":"%s %d"}`, id, n)}},
			Reflection: &plannerv1.Reflection{Summary: fmt.Sprintf("%d calls", n), Next: "another"},
		}
	default:
		res = &plannerv1.ThinkResult{Reflection: &plannerv1.Reflection{Done: true, Summary: id + " is done"}}
	}
	res.Thought = "thinking about " + id
	return stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Result{Result: res}})
}
