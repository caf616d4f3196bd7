package plan

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Final is the tool id of a step that ends the task.
const Final = "FINAL"

// Planner answers the questions of PlannerService that are about a task. Requests have been checked by Check and hold whole contexts.
// Implementations are safe for concurrent use. Errors that callers have to tell apart are *errs.Error, with the usage of the failed call.
type Planner interface {
	// Info describes the planner. It is constant.
	Info() Info

	// PlanSteps serves PlanSteps and StreamPlanSteps. emit gets the answer while it is written; it may be nil. Its error ends the call and is
	// returned. The response needs no context name; it has a flow name and risk if the request says `begin`.
	PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(text string) error) (*plannerv1.PlanStepsResponse, error)
	// GenerateAnswer writes the answer to emit and returns the last response, which has no text.
	GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(text string) error) (*plannerv1.GenerateAnswerResponse, error)

	GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error)
	FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error)
	AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error)
	IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error)
	DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error)
	GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error)

	// Planners without a language model get the following from NeedsModel.

	CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error)
	// Think writes the thought to emit and returns the result.
	Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(text string) error) (*plannerv1.ThinkResult, error)
	Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error)
	Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error)
	SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error)
	SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error)
}

// Info describes a planner.
type Info struct {
	Name        string // as tasks give it in `model`
	Description string // for people
}

// NeedsModel refuses what only a language model can do.
type NeedsModel struct{}

func (NeedsModel) refuse(what string) error {
	return errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
		"%s needs a language model, and the task's planner has none; name one in `model` (docs/models.md)", what)
}

// CreatePlan implements Planner.
func (n NeedsModel) CreatePlan(context.Context, *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	return nil, n.refuse("CreatePlan")
}

// Think implements Planner.
func (n NeedsModel) Think(context.Context, *plannerv1.ThinkRequest, func(string) error) (*plannerv1.ThinkResult, error) {
	return nil, n.refuse("Think")
}

// Reflect implements Planner.
func (n NeedsModel) Reflect(context.Context, *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	return nil, n.refuse("Reflect")
}

// Decide implements Planner.
func (n NeedsModel) Decide(context.Context, *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return nil, n.refuse("Decide")
}

// SelectTools implements Planner.
func (n NeedsModel) SelectTools(context.Context, *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	return nil, n.refuse("SelectTools")
}

// SummarizeMemory implements Planner.
func (n NeedsModel) SummarizeMemory(context.Context, *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	return nil, n.refuse("SummarizeMemory")
}
