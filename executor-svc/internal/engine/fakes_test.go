package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

// planner follows a script: the n-th step of a task is the n-th entry, then FINAL. Fields of type …Fn come before a reply;
// their error replaces it.
type planner struct {
	plannerv1.UnimplementedPlannerServiceServer
	steps []*plannerv1.PlannedStep
	// paramError is what IsParamError says.
	paramError bool

	PlanFn, DeriveFn, FillFn, JudgeFn func(context.Context) error
	AnswerFn                          func(ctx context.Context, send func(string) error) error
}

func (p *planner) GetFlowName(context.Context, *plannerv1.GetFlowNameRequest) (*plannerv1.GetFlowNameResponse, error) {
	return &plannerv1.GetFlowNameResponse{Name: "test flow"}, nil
}

func (p *planner) AssessFlowRisk(context.Context, *plannerv1.AssessFlowRiskRequest) (*plannerv1.AssessFlowRiskResponse, error) {
	return &plannerv1.AssessFlowRiskResponse{Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "a test"}}, nil
}

func (p *planner) PlanSteps(ctx context.Context, req *plannerv1.PlanStepsRequest) (*plannerv1.PlanStepsResponse, error) {
	next := &plannerv1.PlannedStep{ToolId: "FINAL"}
	if n := len(req.GetContext().GetHistory()); n < len(p.steps) {
		next = p.steps[n]
	}
	return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{next}}, before(ctx, p.PlanFn)
}

func (p *planner) GetFirstInputParams(ctx context.Context, req *plannerv1.GetFirstInputParamsRequest) (*plannerv1.GetFirstInputParamsResponse, error) {
	return &plannerv1.GetFirstInputParamsResponse{InputJson: req.GetFailedInputJson()}, before(ctx, p.DeriveFn)
}

func (p *planner) FillParams(ctx context.Context, req *plannerv1.FillParamsRequest) (*plannerv1.FillParamsResponse, error) {
	return &plannerv1.FillParamsResponse{InputJson: req.GetContentJson()}, before(ctx, p.FillFn)
}

func (p *planner) IsParamError(ctx context.Context, _ *plannerv1.IsParamErrorRequest) (*plannerv1.IsParamErrorResponse, error) {
	return &plannerv1.IsParamErrorResponse{IsParamError: p.paramError}, before(ctx, p.JudgeFn)
}

func (p *planner) DescribeError(_ context.Context, req *plannerv1.DescribeErrorRequest) (*plannerv1.DescribeErrorResponse, error) {
	return &plannerv1.DescribeErrorResponse{Message: "please supply: " + req.GetError()}, nil
}

func (p *planner) GetMissingParams(context.Context, *plannerv1.GetMissingParamsRequest) (*plannerv1.GetMissingParamsResponse, error) {
	return &plannerv1.GetMissingParamsResponse{SchemaJson: `{"type":"object","properties":{"text":{"type":["string","null"]}}}`}, nil
}

func (p *planner) GenerateAnswer(_ *plannerv1.GenerateAnswerRequest, stream grpc.ServerStreamingServer[plannerv1.GenerateAnswerResponse]) error {
	send := func(text string) error { return stream.Send(&plannerv1.GenerateAnswerResponse{Text: text}) }
	if p.AnswerFn != nil {
		return p.AnswerFn(stream.Context(), send)
	}
	return send("done")
}

func before(ctx context.Context, fn func(context.Context) error) error {
	if fn == nil {
		return nil
	}
	return fn(ctx)
}

// echoSchema asks for a text.
const echoSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// pool offers one server, `t`, with tools that differ in what they do to the world; all of them echo their text.
type pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	// CallFn replaces the echo.
	CallFn func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error
	// ReleaseFn comes before a release.
	ReleaseFn func(sessionID string)
	// holds has barriers by task: its calls stand at it before they do anything.
	holds sync.Map

	mu    sync.Mutex // guards what follows
	calls []*mcppoolv1.CallToolRequest
	stops map[string]context.CancelFunc
}

var effects = map[string]commonv1.Effect{"read": commonv1.Effect_EFFECT_READ, "write": commonv1.Effect_EFFECT_WRITE}

func (p *pool) ListMcpServers(context.Context, *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	return &mcppoolv1.ListMcpServersResponse{McpServers: []*mcppoolv1.McpServer{{Id: "t"}}}, nil
}

func (p *pool) ListTools(context.Context, *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	out := &mcppoolv1.ListToolsResponse{}
	for name, effect := range effects {
		out.Tools = append(out.Tools, &commonv1.Tool{
			Id: "t/" + name, McpId: "t", Name: name, InputSchemaJson: echoSchema, Effect: effect, DefinitionHash: "hash-" + name,
		})
	}
	return out, nil
}

func (p *pool) CallTool(req *mcppoolv1.CallToolRequest, stream grpc.ServerStreamingServer[mcppoolv1.CallToolResponse]) error {
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	p.mu.Lock()
	p.calls = append(p.calls, req)
	if p.stops == nil {
		p.stops = map[string]context.CancelFunc{}
	}
	p.stops[req.GetCallId()] = stop
	p.mu.Unlock()
	if b, ok := p.holds.Load(req.GetSessionId()); ok {
		b.(*barrier).pass()
	}
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
	stop()
	return &mcppoolv1.CancelCallResponse{}, nil
}

func (p *pool) ReleaseSession(_ context.Context, req *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	if p.ReleaseFn != nil {
		p.ReleaseFn(req.GetSessionId())
	}
	return &mcppoolv1.ReleaseSessionResponse{Released: 1}, nil
}

func (p *pool) called() []*mcppoolv1.CallToolRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

// calledFor returns the calls of one task.
func (p *pool) calledFor(id string) []*mcppoolv1.CallToolRequest {
	return slices.DeleteFunc(p.called(), func(c *mcppoolv1.CallToolRequest) bool { return c.GetSessionId() != id })
}

// hang makes every call wait until it is stopped.
func hang(ctx context.Context, _ *mcppoolv1.CallToolRequest, _ func(*mcppoolv1.CallToolResponse) error) error {
	<-ctx.Done()
	return ctx.Err()
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
