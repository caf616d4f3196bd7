package api

import (
	"cmp"
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/plan"
)

// subtaskPlanner is a planner that can divide a goal into subtasks and work on them.
type subtaskPlanner interface {
	plan.Planner
	CreatePlan(context.Context, *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error)
	Think(ctx context.Context, req *plannerv1.ThinkRequest, emit func(text string) error) (*plannerv1.ThinkResult, error)
	Reflect(context.Context, *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error)
}

// chatPlanner is a planner that can take part in conversations.
type chatPlanner interface {
	plan.Planner
	Decide(context.Context, *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error)
	SelectTools(context.Context, *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error)
	SummarizeMemory(context.Context, *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error)
	Respond(context.Context, *plannerv1.RespondRequest) (*plannerv1.RespondResponse, error)
}

// forward passes a request to the planner of its task. It fails if the planner is not a P: most planners without a language model do not serve all
// requests.
func forward[P plan.Planner, Req taskRequest, Resp any](ctx context.Context, s *server, req Req, ask func(P, context.Context, Req) (Resp, error)) (Resp, error) {
	var none Resp
	ctx, prepared, err := s.prepare(ctx, req)
	if err != nil {
		return none, err
	}
	p, ok := prepared.planner.(P)
	if !ok {
		hint := "name one in `model` (docs/models.md)"
		if prepared.planner == s.playbooks {
			hint = "a playbook has its steps already, so run it with the flow `agent`, or give a goal and a model instead"
		}
		return none, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MODEL_ERROR,
			"%s needs a language model, and the task's planner has none; %s", strings.TrimSuffix(string(req.ProtoReflect().Descriptor().Name()), "Request"), hint)
	}
	return ask(p, ctx, req)
}

// planPart makes a plan with the flow's name and risk, and returns the part of it that an RPC needs.
func planPart[Resp any](ctx context.Context, s *server, req taskRequest, part func(*plannerv1.PlanStepsResponse) (*Resp, error)) (*Resp, error) {
	ctx, p, err := s.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	res, err := p.planner.PlanSteps(ctx, &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: true}, nil)
	if err != nil {
		return nil, err
	}
	return part(res)
}

func (s *server) GetFlowName(ctx context.Context, req *plannerv1.GetFlowNameRequest) (*plannerv1.GetFlowNameResponse, error) {
	return planPart(ctx, s, req, func(res *plannerv1.PlanStepsResponse) (*plannerv1.GetFlowNameResponse, error) {
		return &plannerv1.GetFlowNameResponse{Name: res.GetFlowName(), Usage: res.GetUsage()}, nil
	})
}

func (s *server) AssessFlowRisk(ctx context.Context, req *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	return planPart(ctx, s, req, func(res *plannerv1.PlanStepsResponse) (*plannerv1.AssessFlowRiskResponse, error) {
		return &plannerv1.AssessFlowRiskResponse{Risk: res.GetFlowRisk(), Usage: res.GetUsage()}, nil
	})
}

func (s *server) CreateNextStep(ctx context.Context, req *plannerv1.CreateNextStepRequest) (*plannerv1.CreateNextStepResponse, error) {
	return planPart(ctx, s, req, func(res *plannerv1.PlanStepsResponse) (*plannerv1.CreateNextStepResponse, error) {
		if len(res.GetSteps()) == 0 {
			return nil, plan.Invalid("context.branch", "the playbook runs the branches %s at this point; name one", strings.Join(res.GetBranches(), ", "))
		}
		next := res.GetSteps()[0]
		return &plannerv1.CreateNextStepResponse{ToolId: next.GetToolId(), Description: next.GetDescription(), Usage: res.GetUsage()}, nil
	})
}

func (s *server) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	return forward(ctx, s, req, plan.Planner.GetFirstInputParams)
}

func (s *server) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	return forward(ctx, s, req, plan.Planner.FillParams)
}

func (s *server) AssessToolRisk(ctx context.Context, req *plannerv1.AssessToolRiskRequest) (*plannerv1.AssessToolRiskResponse, error) {
	return forward(ctx, s, req, plan.Planner.AssessToolRisk)
}

func (s *server) IsParamError(ctx context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return forward(ctx, s, req, plan.Planner.IsParamError)
}

func (s *server) DescribeError(ctx context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	return forward(ctx, s, req, plan.Planner.DescribeError)
}

func (s *server) GetMissingParams(ctx context.Context, req *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	return forward(ctx, s, req, plan.Planner.GetMissingParams)
}

func (s *server) CreatePlan(ctx context.Context, req *plannerv1.CreatePlanRequest) (*plannerv1.CreatePlanResponse, error) {
	return forward(ctx, s, req, subtaskPlanner.CreatePlan)
}

func (s *server) Reflect(ctx context.Context, req *plannerv1.ReflectRequest) (*plannerv1.ReflectResponse, error) {
	return forward(ctx, s, req, subtaskPlanner.Reflect)
}

func (s *server) Decide(ctx context.Context, req *plannerv1.DecideRequest) (*plannerv1.DecideResponse, error) {
	return forward(ctx, s, req, chatPlanner.Decide)
}

func (s *server) SelectTools(ctx context.Context, req *plannerv1.SelectToolsRequest) (*plannerv1.SelectToolsResponse, error) {
	return forward(ctx, s, req, chatPlanner.SelectTools)
}

func (s *server) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	return forward(ctx, s, req, chatPlanner.SummarizeMemory)
}

func (s *server) Respond(ctx context.Context, req *plannerv1.RespondRequest) (*plannerv1.RespondResponse, error) {
	return forward(ctx, s, req, chatPlanner.Respond)
}

func (s *server) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	return s.plan(ctx, req, nil)
}

func (s *server) StreamPlanSteps(req *plannerv1.StreamPlanStepsRequest, stream grpc.ServerStreamingServer[plannerv1.StreamPlanStepsResponse]) error {
	res, err := s.plan(stream.Context(), &plannerv1.PlanStepsRequest{Context: req.GetContext(), Begin: req.GetBegin()}, func(text string) error {
		return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_AnswerText{AnswerText: text}})
	})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.StreamPlanStepsResponse{Piece: &plannerv1.StreamPlanStepsResponse_Plan{Plan: res}})
}

// plan makes a plan and keeps the task's context for its next request.
func (s *server) plan(ctx context.Context, req *plannerv1.PlanStepsRequest, emit func(string) error) (*plannerv1.PlanStepsResponse, error) {
	base := req.GetContext().GetBase()
	ctx, p, err := s.prepare(ctx, req)
	if err != nil {
		return nil, err
	}
	res, err := p.planner.PlanSteps(ctx, req, emit)
	if err != nil {
		return nil, err
	}
	switch {
	case res.Answer != nil:
		s.contexts.forget(p.user, base) // a task sends nothing after its answer
		return res, nil
	case res.GetMemory() != nil:
		s.contexts.forget(p.user, base)
		p.whole.Memory, base = res.GetMemory(), "" // without a base, keep measures the whole context
	}
	res.ContextName = s.contexts.keep(p.user, base, p.whole)
	return res, nil
}

func (s *server) GenerateAnswer(req *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	base := req.GetContext().GetBase()
	ctx, p, err := s.prepare(stream.Context(), req)
	if err != nil {
		return err
	}
	last, err := p.planner.GenerateAnswer(ctx, req, func(text string) error {
		return stream.Send(&plannerv1.GenerateAnswerResponse{Text: text})
	})
	if err != nil {
		return err
	}
	s.contexts.forget(p.user, base) // a task sends nothing after its answer
	return stream.Send(last)
}

func (s *server) Think(req *plannerv1.ThinkRequest, stream grpc.ServerStreamingServer[plannerv1.ThinkResponse]) error {
	result, err := forward(stream.Context(), s, req, func(p subtaskPlanner, ctx context.Context, req *plannerv1.ThinkRequest) (*plannerv1.ThinkResult, error) {
		return p.Think(ctx, req, func(text string) error {
			return stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Text{Text: text}})
		})
	})
	if err != nil {
		return err
	}
	return stream.Send(&plannerv1.ThinkResponse{Piece: &plannerv1.ThinkResponse_Result{Result: result}})
}

func (s *server) Generate(req *plannerv1.GenerateRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateResponse]) error {
	ctx := stream.Context()
	if _, err := identity.FromContext(ctx); err != nil {
		return err
	}
	chosen, err := s.models.Choose(req.GetModel(), req.GetModelHints())
	if err != nil {
		return err
	}
	r := &llm.Request{
		System: req.GetSystem(), Messages: req.GetMessages(), Tools: req.GetTools(), ToolChoice: req.GetToolChoice(),
		MaxTokens: int(min(req.GetMaxOutputTokens(), 1<<30)), Temperature: req.Temperature, Stop: req.GetStopSequences(),
	}
	b := cmp.Or(req.GetBudget(), &commonv1.ModelBudget{})
	budget := &plannerv1.TaskContext{ModelCallsLeft: b.ModelCalls, TokensLeft: b.Tokens, CostNanoUsdLeft: b.CostNanoUsd}
	reply, err := s.factory.Planner(chosen).Generate(ctx, budget, r, req.GetOutputSchemaJson(), func(text string) error {
		return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_Text{Text: text}})
	})
	if err != nil {
		return err
	}
	for _, c := range reply.Calls {
		if err := stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_ToolCall{ToolCall: c}}); err != nil {
			return err
		}
	}
	return stream.Send(&plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
		StopReason: reply.Stop, Model: reply.Name, ProviderModel: reply.Model, Usage: plan.UsageProto(reply.Usage),
	}}})
}
