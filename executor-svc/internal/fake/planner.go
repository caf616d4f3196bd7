package fake

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Planner follows a script: the n-th step of a task is the n-th entry of Steps; after the last one comes FINAL. A function Before… runs
// before the reply, and its error replaces the reply; nil does nothing. A function …Fn makes the reply.
type Planner struct {
	plannerv1.UnimplementedPlannerServiceServer
	Steps []*plannerv1.PlannedStep
	// Ahead makes a plan hold all remaining steps and FINAL, not only the next step.
	Ahead bool
	// ParamError is IsParamError's reply.
	ParamError bool
	// CutResult is the goal result of an answer that was cut short.
	CutResult plannerv1.GoalResult
	// Pieces are sent before each plan.
	Pieces []string
	// Usage is the usage of each plan.
	Usage *commonv1.Usage

	// Subtasks is the plan of a task with subtasks.
	Subtasks []*plannerv1.Subtask
	ThinkFn  func(*plannerv1.ThinkRequest) *plannerv1.ThinkResult

	// The replies about messages of conversations; see the methods for the defaults.
	DecideFn    func(*plannerv1.DecideRequest) *plannerv1.DecideResponse
	SelectFn    func(*plannerv1.SelectToolsRequest) *plannerv1.SelectToolsResponse
	RespondFn   func(*plannerv1.RespondRequest) *plannerv1.RespondResponse
	SummarizeFn func(*plannerv1.SummarizeMemoryRequest) *plannerv1.SummarizeMemoryResponse
	// BeforeChat runs before each of them.
	BeforeChat func(context.Context) error

	BeforePlan, BeforeDerive, BeforeFill, BeforeParam, BeforeModels func(context.Context) error

	PlanFn   func(context.Context, *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error)
	DeriveFn func(*plannerv1.GetFirstInputParamsRequest) string
	AnswerFn func(ctx context.Context, req *plannerv1.GenerateAnswerRequest, send func(string) error) error
	CheckFn  func(*plannerv1.CheckPlaybookRequest) *plannerv1.CheckPlaybookResponse

	mu       sync.Mutex // guards the fields below
	seen     []*plannerv1.TaskContext
	catalogs map[string][]*commonv1.Tool // by hash
}

// Script returns a planner that calls these tools of the server `t`, one after another, each with its own text.
func Script(tools ...string) *Planner {
	p := &Planner{}
	for i, tool := range tools {
		p.Steps = append(p.Steps, &plannerv1.PlannedStep{
			ToolId: "t/" + tool, Description: "step " + tool, InputJson: fmt.Sprintf(`{"text":"%s %d"}`, tool, i+1),
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "only a test"},
		})
	}
	return p
}

// Contexts returns the contexts of all plans so far.
func (p *Planner) Contexts() []*plannerv1.TaskContext {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*plannerv1.TaskContext(nil), p.seen...)
}

// PlanSteps implements PlannerService.
func (p *Planner) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	p.mu.Lock()
	p.seen = append(p.seen, req.GetContext())
	p.mu.Unlock()
	if err := before(ctx, p.BeforePlan); err != nil {
		return nil, err
	}
	res := &plannerv1.PlanStepsResponse{}
	if p.PlanFn != nil {
		var err error
		if res, err = p.PlanFn(ctx, req.GetContext()); err != nil {
			return nil, err
		}
	} else {
		remaining := p.Steps[min(len(req.GetContext().GetHistory()), len(p.Steps)):]
		if !p.Ahead {
			remaining = remaining[:min(1, len(remaining))]
		}
		res.Steps = append(res.Steps, remaining...)
		if p.Ahead || len(remaining) == 0 {
			res.Steps = append(res.Steps, &plannerv1.PlannedStep{ToolId: "FINAL"})
		}
		res.Usage = p.Usage
	}
	if req.GetBegin() {
		res.FlowName = "test flow"
		res.FlowRisk = &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "a test"}
	}
	return res, nil
}

// StreamPlanSteps implements PlannerService.
func (p *Planner) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	plan, err := p.PlanSteps(stream.Context(), &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: req.GetBegin()})
	if err != nil {
		return err
	}
	for _, piece := range p.Pieces {
		if err := stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_AnswerText{AnswerText: piece}}); err != nil {
			return err
		}
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: plan}})
}

// GetFirstInputParams implements PlannerService.
func (p *Planner) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	input := req.GetFailedInputJson()
	if p.DeriveFn != nil {
		input = p.DeriveFn(req)
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: input}, before(ctx, p.BeforeDerive)
}

// FillParams implements PlannerService.
func (p *Planner) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	return &plannerv1.FillParamsResponse{InputJson: req.GetContentJson()}, before(ctx, p.BeforeFill)
}

// IsParamError implements PlannerService.
func (p *Planner) IsParamError(ctx context.Context, _ *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return &plannerv1.IsParamErrorResponse{IsParamError: p.ParamError}, before(ctx, p.BeforeParam)
}

// DescribeError implements PlannerService.
func (*Planner) DescribeError(_ context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	return &plannerv1.DescribeErrorResponse{Message: "please supply: " + req.GetError()}, nil
}

// GetMissingParams implements PlannerService.
func (*Planner) GetMissingParams(context.Context, *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	return &plannerv1.GetMissingParamsResponse{SchemaJson: `{"type":"object","properties":{"text":{"type":["string","null"]}}}`}, nil
}

// GenerateAnswer implements PlannerService: it lists the result of each step.
func (p *Planner) GenerateAnswer(req *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	send := func(text string) error { return stream.Send(&plannerv1.GenerateAnswerResponse{Text: text}) }
	if p.AnswerFn != nil {
		return p.AnswerFn(stream.Context(), req, send)
	}
	var b strings.Builder
	var goal plannerv1.GoalResult
	if req.GetCutShort() != "" {
		b.WriteString(req.GetCutShort() + " ")
		goal = p.CutResult
	}
	for _, h := range req.GetContext().GetHistory() {
		fmt.Fprintf(&b, "%s:%s ", h.GetStepId(), strings.TrimPrefix(h.GetResult().String(), "STEP_RESULT_"))
	}
	return stream.Send(&plannerv1.GenerateAnswerResponse{Text: b.String() + "done", GoalResult: goal})
}

// CheckPlaybook implements PlannerService.
func (p *Planner) CheckPlaybook(_ context.Context, req *plannerv1.CheckPlaybookRequest) (*plannerv1.CheckPlaybookResponse, error) {
	if strings.Contains(req.GetPlaybook(), "broken") {
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "line 3: there is no step x")
	}
	if p.CheckFn != nil {
		return p.CheckFn(req), nil
	}
	return &plannerv1.CheckPlaybookResponse{Name: "a playbook", StepCount: 1}, nil
}

// ListModels implements PlannerService.
func (p *Planner) ListModels(ctx context.Context, _ *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	models := []*plannerv1.Model{{Name: "offline", IsDefault: true}, {Name: "playbook"}}
	return &plannerv1.ListModelsResponse{Models: models}, before(ctx, p.BeforeModels)
}

func before(ctx context.Context, fn func(context.Context) error) error {
	if fn == nil {
		return nil
	}
	return fn(ctx)
}
