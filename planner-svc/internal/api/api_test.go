package api

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// Handlers refuse calls without a principal themselves, also if no interceptor did. What they answer is tested over gRPC
// in the planner package.
func TestCallsWithoutPrincipalAreRefused(t *testing.T) {
	s, ctx := &server{}, t.Context()
	for name, call := range map[string]func() error{
		"GetFlowName":    func() error { _, err := s.GetFlowName(ctx, &plannerv1.GetFlowNameRequest{}); return err },
		"AssessFlowRisk": func() error { _, err := s.AssessFlowRisk(ctx, &plannerv1.AssessFlowRiskRequest{}); return err },
		"PlanSteps":      func() error { _, err := s.PlanSteps(ctx, &plannerv1.PlanStepsRequest{}); return err },
		"CreateNextStep": func() error { _, err := s.CreateNextStep(ctx, &plannerv1.CreateNextStepRequest{}); return err },
		"GetFirstInputParams": func() error {
			_, err := s.GetFirstInputParams(ctx, &plannerv1.GetFirstInputParamsRequest{})
			return err
		},
		"FillParams":       func() error { _, err := s.FillParams(ctx, &plannerv1.FillParamsRequest{}); return err },
		"AssessToolRisk":   func() error { _, err := s.AssessToolRisk(ctx, &plannerv1.AssessToolRiskRequest{}); return err },
		"IsParamError":     func() error { _, err := s.IsParamError(ctx, &plannerv1.IsParamErrorRequest{}); return err },
		"DescribeError":    func() error { _, err := s.DescribeError(ctx, &plannerv1.DescribeErrorRequest{}); return err },
		"GetMissingParams": func() error { _, err := s.GetMissingParams(ctx, &plannerv1.GetMissingParamsRequest{}); return err },
		"CreatePlan":       func() error { _, err := s.CreatePlan(ctx, &plannerv1.CreatePlanRequest{}); return err },
		"Reflect":          func() error { _, err := s.Reflect(ctx, &plannerv1.ReflectRequest{}); return err },
		"Decide":           func() error { _, err := s.Decide(ctx, &plannerv1.DecideRequest{}); return err },
		"SelectTools":      func() error { _, err := s.SelectTools(ctx, &plannerv1.SelectToolsRequest{}); return err },
		"SummarizeMemory":  func() error { _, err := s.SummarizeMemory(ctx, &plannerv1.SummarizeMemoryRequest{}); return err },
		"StreamPlanSteps": func() error {
			return s.StreamPlanSteps(&plannerv1.StreamPlanStepsRequest{}, anonymous[plannerv1.StreamPlanStepsResponse]{t: t})
		},
		"Think": func() error {
			return s.Think(&plannerv1.ThinkRequest{}, anonymous[plannerv1.ThinkResponse]{t: t})
		},
		"GenerateAnswer": func() error {
			return s.GenerateAnswer(&plannerv1.GenerateAnswerRequest{}, anonymous[plannerv1.GenerateAnswerResponse]{t: t})
		},
		"Generate": func() error {
			return s.Generate(&plannerv1.GenerateRequest{}, anonymous[plannerv1.GenerateResponse]{t: t})
		},
		"CheckPlaybook": func() error { _, err := s.CheckPlaybook(ctx, &plannerv1.CheckPlaybookRequest{}); return err },
		"RankTools":     func() error { _, err := s.RankTools(ctx, &plannerv1.RankToolsRequest{}); return err },
		"ListModels":    func() error { _, err := s.ListModels(ctx, &plannerv1.ListModelsRequest{}); return err },
	} {
		if err := call(); errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_UNAUTHENTICATED {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// anonymous is a stream without a principal.
type anonymous[T any] struct {
	grpc.ServerStreamingServer[T]
	t *testing.T
}

func (n anonymous[T]) Context() context.Context { return n.t.Context() }
