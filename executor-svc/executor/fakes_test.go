package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

// planner follows a script: the n-th step of a task is the n-th entry, then FINAL. Fields of type …Fn replace a reply.
type planner struct {
	plannerv1.UnimplementedPlannerServiceServer
	steps []*plannerv1.PlannedStep

	PlanFn   func(context.Context, *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error)
	DeriveFn func(*plannerv1.GetFirstInputParamsRequest) string
	FillFn   func(*plannerv1.FillParamsRequest) string
	AnswerFn func(*plannerv1.GenerateAnswerRequest, func(string) error) error
	ParamFn  func(*plannerv1.IsParamErrorRequest) bool
	ModelsFn func()

	mu   sync.Mutex // guards seen
	seen []*plannerv1.TaskContext
}

func (p *planner) GetFlowName(context.Context, *plannerv1.GetFlowNameRequest) (*plannerv1.GetFlowNameResponse, error) {
	return &plannerv1.GetFlowNameResponse{Name: "test flow"}, nil
}

func (p *planner) AssessFlowRisk(context.Context, *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	return &plannerv1.AssessFlowRiskResponse{Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "a test"}}, nil
}

func (p *planner) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	p.mu.Lock()
	p.seen = append(p.seen, req.GetContext())
	p.mu.Unlock()
	if p.PlanFn != nil {
		return p.PlanFn(ctx, req.GetContext())
	}
	next := &plannerv1.PlannedStep{ToolId: "FINAL"}
	if n := len(req.GetContext().GetHistory()); n < len(p.steps) {
		next = p.steps[n]
	}
	return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{next}, Usage: &commonv1.Usage{ModelCalls: 1, InputTokens: 10, OutputTokens: 5}}, nil
}

func (p *planner) GetFirstInputParams(_ context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	if p.DeriveFn != nil {
		return &plannerv1.GetFirstInputParamsResponse{InputJson: p.DeriveFn(req)}, nil
	}
	return &plannerv1.GetFirstInputParamsResponse{InputJson: req.GetFailedInputJson()}, nil
}

func (p *planner) FillParams(_ context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	if p.FillFn != nil {
		return &plannerv1.FillParamsResponse{InputJson: p.FillFn(req)}, nil
	}
	return &plannerv1.FillParamsResponse{InputJson: req.GetContentJson()}, nil
}

func (p *planner) IsParamError(_ context.Context, req *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return &plannerv1.IsParamErrorResponse{IsParamError: p.ParamFn != nil && p.ParamFn(req)}, nil
}

func (p *planner) DescribeError(_ context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	return &plannerv1.DescribeErrorResponse{Message: "please supply: " + req.GetError()}, nil
}

func (p *planner) GetMissingParams(context.Context, *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	return &plannerv1.GetMissingParamsResponse{SchemaJson: `{"type":"object","properties":{"text":{"type":["string","null"]}}}`}, nil
}

func (p *planner) GenerateAnswer(req *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	send := func(text string) error { return stream.Send(&plannerv1.GenerateAnswerResponse{Text: text}) }
	if p.AnswerFn != nil {
		return p.AnswerFn(req, send)
	}
	if req.GetCutShort() != "" {
		if err := send(req.GetCutShort() + " "); err != nil {
			return err
		}
	}
	for _, h := range req.GetContext().GetHistory() {
		if err := send(fmt.Sprintf("%s:%s ", h.GetStepId(), strings.TrimPrefix(h.GetResult().String(), "STEP_RESULT_"))); err != nil {
			return err
		}
	}
	return send("done")
}

func (p *planner) CheckPlaybook(_ context.Context, req *plannerv1.CheckPlaybookRequest) (*plannerv1.CheckPlaybookResponse, error) {
	if strings.Contains(req.GetPlaybook(), "broken") {
		return nil, errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "line 3: there is no step x")
	}
	return &plannerv1.CheckPlaybookResponse{Name: "a playbook", StepCount: 1}, nil
}

func (p *planner) ListModels(context.Context, *plannerv1.ListModelsRequest) (*plannerv1.ListModelsResponse, error) {
	if p.ModelsFn != nil {
		p.ModelsFn()
	}
	return &plannerv1.ListModelsResponse{Models: []*plannerv1.Model{{Name: "offline", IsDefault: true}, {Name: "playbook"}}}, nil
}

func (p *planner) contexts() []*plannerv1.TaskContext {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*plannerv1.TaskContext(nil), p.seen...)
}

// echoSchema asks for a text.
const echoSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// pool offers one server, `t`, with tools that differ in what they do to the world; all of them echo their text.
type pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	// CallFn replaces the echo.
	CallFn func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error

	mu       sync.Mutex // guards what follows
	calls    []*mcppoolv1.CallToolRequest
	users    []string
	released []string
	stops    map[string]context.CancelCauseFunc
}

var effects = map[string]commonv1.Effect{
	"read": commonv1.Effect_EFFECT_READ, "write": commonv1.Effect_EFFECT_WRITE, "destroy": commonv1.Effect_EFFECT_DESTRUCTIVE,
}

var floors = map[string]commonv1.RiskLevel{
	"read": commonv1.RiskLevel_RISK_LEVEL_LOW, "write": commonv1.RiskLevel_RISK_LEVEL_MEDIUM, "destroy": commonv1.RiskLevel_RISK_LEVEL_HIGH,
}

func (p *pool) GetMcpServer(_ context.Context, req *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	if req.GetId() != "t" && req.GetId() != "off" {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "no server %s", req.GetId())
	}
	return &mcppoolv1.McpServer{Id: req.GetId()}, nil
}

func (p *pool) ListMcpServers(context.Context, *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	return &mcppoolv1.ListMcpServersResponse{McpServers: []*mcppoolv1.McpServer{{Id: "t"}, {Id: "elsewhere", OnlyWhenNamed: true}}}, nil
}

func (p *pool) ListTools(_ context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	if req.GetMcpId() != "t" {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "%s is not active", req.GetMcpId())
	}
	out := &mcppoolv1.ListToolsResponse{}
	for name, effect := range effects {
		out.Tools = append(out.Tools, &commonv1.Tool{
			Id: "t/" + name, McpId: "t", Name: name, InputSchemaJson: echoSchema, Effect: effect, RiskFloor: floors[name], DefinitionHash: "hash-" + name,
		})
	}
	return out, nil
}

func (p *pool) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	who, err := identity.FromContext(stream.Context())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(stream.Context())
	defer stop(nil)
	p.mu.Lock()
	p.calls, p.users = append(p.calls, req), append(p.users, who.Sub)
	if p.stops == nil {
		p.stops = map[string]context.CancelCauseFunc{}
	}
	p.stops[req.GetCallId()] = stop
	p.mu.Unlock()
	if p.CallFn != nil {
		return p.CallFn(ctx, req, stream.Send)
	}
	var in struct{ Text string }
	if err := json.Unmarshal([]byte(req.GetInputJson()), &in); err != nil {
		return err
	}
	return stream.Send(textResult(in.Text, false))
}

func (p *pool) CancelCall(_ context.Context, req *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	p.mu.Lock()
	stop := p.stops[req.GetCallId()]
	p.mu.Unlock()
	if stop == nil {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_TOOL_NOT_FOUND, "no call %s", req.GetCallId())
	}
	stop(context.Canceled)
	return &mcppoolv1.CancelCallResponse{}, nil
}

func (p *pool) ReleaseSession(_ context.Context, req *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, req.GetSessionId())
	return &mcppoolv1.ReleaseSessionResponse{Released: 1}, nil
}

func (p *pool) called() []*mcppoolv1.CallToolRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*mcppoolv1.CallToolRequest(nil), p.calls...)
}

func textResult(text string, isError bool) *mcppoolv1.CallToolResponse {
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
		IsError: isError, Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}},
	}}}
}

// script plans these tools, one after another, each with a text of its own.
func script(tools ...string) *planner {
	p := &planner{}
	for i, tool := range tools {
		p.steps = append(p.steps, &plannerv1.PlannedStep{
			ToolId: "t/" + tool, Description: "step " + tool, InputJson: fmt.Sprintf(`{"text":"%s %d"}`, tool, i+1),
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "only a test"},
		})
	}
	return p
}
