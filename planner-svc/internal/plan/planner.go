// Package plan defines planners and implements the planner that asks a language model. It knows tools and histories, but nothing of providers, gRPC
// servers and the executor's state.
package plan

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

const (
	// Final is the tool id of a step that ends the task.
	Final = "FINAL"
	// Playbook is the name of the planner of tasks with a playbook.
	Playbook = "playbook"
)

// Planner serves the requests of PlannerService that are about a task. Requests have been checked and hold whole contexts.
// Implementations are safe for concurrent use. Errors that callers have to tell apart are *errs.Error, with the usage of the failed call.
type Planner interface {
	// Info describes the planner. It is constant.
	Info() Info

	// PlanSteps serves PlanSteps and StreamPlanSteps. It passes the answer to emit piece by piece, unless emit is nil, and returns an error of emit.
	// The response has a flow name and risk if the request sets `begin`. The API sets the context name.
	PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(text string) error) (*plannerv1.PlanStepsResponse, error)
	// GenerateAnswer writes the answer to emit and returns the last response, which has no text.
	GenerateAnswer(ctx context.Context, req *plannerv1.GenerateAnswerRequest, emit func(text string) error) (*plannerv1.GenerateAnswerResponse, error)

	GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error)
	FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error)
	AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error)
	IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error)
	DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error)
	GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error)
}

// Info describes a planner.
type Info struct {
	Name        string // the value of a task's `model`
	Description string // for people
}

// Invalid returns an error about a field of the request.
func Invalid(field, format string, args ...any) error {
	e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
	return e.WithViolation(field, e.Message)
}
