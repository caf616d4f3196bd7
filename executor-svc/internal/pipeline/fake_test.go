package pipeline

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// replies is a stream of messages that ends with err, or io.EOF.
type replies[M any] struct {
	grpc.ClientStream
	messages []*M
	err      error
}

func (r *replies[M]) Recv() (*M, error) {
	if len(r.messages) > 0 {
		m := r.messages[0]
		r.messages = r.messages[1:]
		return m, nil
	}
	if r.err != nil {
		return nil, r.err
	}
	return nil, io.EOF
}

// planner is a planner whose model calls tools natively, or not.
type planner struct {
	plannerv1.PlannerServiceClient
	native bool
	// reply answers a request.
	reply func(*plannerv1.GenerateRequest) *replies[plannerv1.GenerateResponse]

	mu    sync.Mutex
	asked []*plannerv1.GenerateRequest
}

func (p *planner) ListModels(context.Context, *plannerv1.ListModelsRequest, ...grpc.CallOption) (*plannerv1.ListModelsResponse, error) {
	return &plannerv1.ListModelsResponse{Models: []*plannerv1.Model{
		{Name: "other", CanCallTools: !p.native}, {Name: "m", IsGenerateDefault: true, CanCallTools: p.native},
	}}, nil
}

func (p *planner) Generate(_ context.Context, req *plannerv1.GenerateRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[plannerv1.GenerateResponse], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, req)
	return p.reply(req), nil
}

// said is a reply with these pieces of text and these calls.
func said(calls []*plannerv1.ModelToolCall, texts ...string) *replies[plannerv1.GenerateResponse] {
	r := &replies[plannerv1.GenerateResponse]{}
	for _, text := range texts {
		r.messages = append(r.messages, &plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_Text{Text: text}})
	}
	for _, c := range calls {
		r.messages = append(r.messages, &plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_ToolCall{ToolCall: c}})
	}
	cost := uint64(3)
	r.messages = append(r.messages, &plannerv1.GenerateResponse{Piece: &plannerv1.GenerateResponse_End{End: &plannerv1.GenerateEnd{
		StopReason: plannerv1.StopReason_STOP_REASON_END, Model: "m", ProviderModel: "provider-m", Usage: &commonv1.Usage{ModelCalls: 1, InputTokens: 10, OutputTokens: 2, CostNanoUsd: &cost},
	}}})
	return r
}

// pool is a pool whose servers and tools are functions.
type pool struct {
	mcppoolv1.McpPoolServiceClient
	list func(mcpID string) ([]*commonv1.Tool, error)
	call func(ctx context.Context, req *mcppoolv1.CallToolRequest) *replies[mcppoolv1.CallToolResponse]

	mu       sync.Mutex
	released []string
}

func (p *pool) ListTools(_ context.Context, req *mcppoolv1.ListToolsRequest, _ ...grpc.CallOption) (*mcppoolv1.ListToolsResponse, error) {
	tools, err := p.list(req.GetMcpId())
	return &mcppoolv1.ListToolsResponse{Tools: tools}, err
}

func (p *pool) CallTool(ctx context.Context, req *mcppoolv1.CallToolRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[mcppoolv1.CallToolResponse], error) {
	return p.call(ctx, req), nil
}

func (p *pool) ReleaseSession(_ context.Context, req *mcppoolv1.ReleaseSessionRequest, _ ...grpc.CallOption) (*mcppoolv1.ReleaseSessionResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = append(p.released, req.GetSessionId())
	return &mcppoolv1.ReleaseSessionResponse{}, nil
}

// returned is the result of a call.
func returned(text string, isError bool) *replies[mcppoolv1.CallToolResponse] {
	return &replies[mcppoolv1.CallToolResponse]{messages: []*mcppoolv1.CallToolResponse{{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
		IsError: isError, Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}},
	}}}}}
}

// tools are the tools of the server `fs`: one that reads, and one that writes.
func tools() []*commonv1.Tool {
	return []*commonv1.Tool{
		{Id: "fs/read", McpId: "fs", Name: "read", Description: "Reads.", RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW,
			InputSchemaJson: `{"type":"object","required":["path"],"properties":{"path":{"type":"string"},"lines":{"type":"integer"},"all":{"type":"boolean"},"names":{"type":"array"}}}`},
		{Id: "fs/write", McpId: "fs", Name: "write", RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM, InputSchemaJson: `{"type":"object"}`},
	}
}

// tasks creates tasks with the id `task`.
type tasks struct {
	created []*executorv1.CreateTaskRequest
}

func (t *tasks) CreateTask(_ context.Context, req *executorv1.CreateTaskRequest) (*executorv1.Task, error) {
	t.created = append(t.created, req)
	return &executorv1.Task{Id: "task"}, nil
}

func user(parts ...*plannerv1.ModelPart) *plannerv1.ModelMessage {
	return &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER, Parts: parts}
}

// exchange is a request with the tools of `fs`.
func exchange() *Exchange {
	x := &Exchange{
		Request: &pipelinev1.CompleteRequest{McpIds: []string{"fs"}, Messages: []*plannerv1.ModelMessage{user(textPart("Read a.txt"))}},
		User:    "ann", Session: "s", Out: &Tee{}, ByName: map[string]*commonv1.Tool{}, Native: true,
		Response: &pipelinev1.CompleteResponse{Usage: &commonv1.Usage{}},
	}
	x.Messages = x.Request.GetMessages()
	for _, t := range tools() {
		x.ByName["fs__"+t.GetName()] = t
		x.Offered = append(x.Offered, &plannerv1.ModelTool{Name: "fs__" + t.GetName(), InputSchemaJson: t.GetInputSchemaJson()})
	}
	return x
}

func here(ctx context.Context, _, _ string) context.Context { return ctx }

func modelCall(id, name, input string) *plannerv1.ModelToolCall {
	return &plannerv1.ModelToolCall{Id: id, Name: name, InputJson: input}
}

// drained returns what waits in a Tee.
func drained(t *Tee) (text string, events []*pipelinev1.StreamCompleteResponse) {
	all, _ := t.take()
	for _, e := range all {
		if piece, ok := e.GetEvent().(*pipelinev1.StreamCompleteResponse_Text); ok {
			text += piece.Text
			continue
		}
		events = append(events, e)
	}
	return text, events
}
