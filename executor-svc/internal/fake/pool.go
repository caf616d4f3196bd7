package fake

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/digest"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
)

// EchoSchema is the input schema of the tools: a required text.
const EchoSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// tools are the tools of the server: one for each effect, and an idempotent tool.
var tools = []*commonv1.Tool{
	{Name: "destroy", Effect: commonv1.Effect_EFFECT_DESTRUCTIVE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_HIGH},
	{Name: "idempotent", Effect: commonv1.Effect_EFFECT_WRITE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM, Idempotent: true},
	{Name: "read", Effect: commonv1.Effect_EFFECT_READ, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_LOW},
	{Name: "write", Effect: commonv1.Effect_EFFECT_WRITE, RiskFloor: commonv1.RiskLevel_RISK_LEVEL_MEDIUM},
}

// Pool has one server, `t`, whose tools echo their text. It remembers calls, as the contract requires, until Restart.
type Pool struct {
	mcppoolv1.UnimplementedMcpPoolServiceServer
	// CallFn replaces the echo.
	CallFn func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error
	// Before runs before each call, and may block.
	Before func(req *mcppoolv1.CallToolRequest)
	// BeforeAttach runs before each AttachCall.
	BeforeAttach func()
	// Detached lets calls continue when their stream breaks, as a real pool does; otherwise they end with it.
	Detached bool
	// Lose breaks the stream of the next call before the call runs.
	Lose bool
	// BeforeAnswer runs before each AnswerCall; its error is returned instead.
	BeforeAnswer func(*mcppoolv1.AnswerCallRequest) error
	// TaskFn returns the result of an MCP task whose call the pool does not know.
	TaskFn func(*mcppoolv1.AttachCallRequest) (*mcppoolv1.CallResult, error)
	// Quarantined is the name of a tool that waits for an approval of its definition.
	Quarantined string
	// ReleaseFn runs before each release.
	ReleaseFn func(sessionID string)

	mu       sync.Mutex // guards the fields below
	tools    []*commonv1.Tool
	revision uint64 // of the server's configuration
	id       string
	ledger   map[string]*call
	seen     Record
}

// Record is what a pool has seen so far.
type Record struct {
	Calls, Refused           []*mcppoolv1.CallToolRequest // a refused call expected another definition
	Attached                 []*mcppoolv1.AttachCallRequest
	Answers                  []*mcppoolv1.AnswerCallRequest
	Released, Acked, Stopped []string // sessions; calls that were acknowledged; calls that were told to stop
}

// Seen returns what the pool has seen so far.
func (p *Pool) Seen() Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen // its lists only grow
}

// Called returns all calls so far.
func (p *Pool) Called() []*mcppoolv1.CallToolRequest { return p.Seen().Calls }

// CalledFor returns the calls of one task.
func (p *Pool) CalledFor(task string) []*mcppoolv1.CallToolRequest {
	return slices.DeleteFunc(slices.Clone(p.Called()), func(c *mcppoolv1.CallToolRequest) bool { return c.GetSessionId() != task })
}

// call is a call that the pool knows. Its done is nil if the pool learned of the call from AttachCall.
type call struct {
	stop   context.CancelCauseFunc
	done   chan struct{}
	result *mcppoolv1.CallResult
	err    error

	asked []*question
	more  chan struct{} // closed and replaced when the call asks more questions
}

// NewPool returns a pool.
func NewPool() *Pool {
	p := &Pool{tools: tools, revision: 1}
	p.Restart()
	return p
}

// Restart gives the fake a new pool id and an empty ledger: it no longer knows earlier calls. Calls that wait for answers end.
func (p *Pool) Restart() { p.restart(func(c *call) bool { return len(c.asked) > 0 }) }

// Die simulates the end of the pool's process: it ends all calls and restarts the pool.
func (p *Pool) Die() { p.restart(func(c *call) bool { return c.stop != nil }) }

func (p *Pool) restart(ends func(*call) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.ledger {
		if ends(c) {
			c.stop(nil)
		}
	}
	p.id, p.ledger = uuid.NewString(), map[string]*call{}
}

// GetMcpServer implements McpPoolService.
func (*Pool) GetMcpServer(_ context.Context, req *mcppoolv1.GetMcpServerRequest) (*mcppoolv1.McpServer, error) {
	if req.GetId() != "t" && req.GetId() != "off" {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_FOUND, "no server %s", req.GetId())
	}
	return &mcppoolv1.McpServer{Id: req.GetId()}, nil
}

// ListMcpServers implements McpPoolService.
func (*Pool) ListMcpServers(context.Context, *mcppoolv1.ListMcpServersRequest) (*mcppoolv1.ListMcpServersResponse, error) {
	return &mcppoolv1.ListMcpServersResponse{McpServers: []*mcppoolv1.McpServer{{Id: "t"}, {Id: "elsewhere", OnlyWhenNamed: true}}}, nil
}

// ListTools implements McpPoolService.
func (p *Pool) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest) (*mcppoolv1.ListToolsResponse, error) {
	if req.GetMcpId() != "t" {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "%s is not active", req.GetMcpId())
	}
	inproc.Share(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	page := &mcppoolv1.ListToolsResponse{PoolId: p.id, LateRelease: true}
	for _, t := range p.listedTools() {
		switch quarantined := t.GetName() == p.Quarantined; {
		case quarantined && req.GetQuarantined():
			page.QuarantinedTools = append(page.QuarantinedTools, &mcppoolv1.QuarantinedTool{Tool: t})
		case !quarantined && !req.GetQuarantined():
			page.Tools = append(page.Tools, t)
		}
	}
	var err error
	page.CatalogHash, err = digest.Of(page.GetTools())
	if req.GetNoTools() {
		page.Tools = nil
	}
	return page, err
}

// CallTools implements McpPoolService.
func (p *Pool) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	inproc.Share(stream.Context())
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, id := range req.GetEndedSessionIds() {
			p.release(id, nil)
		}
		ended := false
		err = p.callTool(stream.Context(), req.GetCall(), func(m *mcppoolv1.CallToolResponse) error {
			ended = ended || m.GetResult() != nil
			return stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: m}})
		})
		if errors.Is(err, errBroke) || err == nil && !ended {
			return err
		}
		if err != nil {
			end := errs.From(err).GRPCStatus().Proto()
			if err := stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: end}}); err != nil {
				return err
			}
		}
	}
}

// errBroke ends a stream in the middle of a call.
var errBroke = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the connection broke")

// admit adds a call to the ledger, unless it is refused.
func (p *Pool) admit(req *mcppoolv1.CallToolRequest, stop context.CancelCauseFunc) (*call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Acked = append(p.seen.Acked, req.GetAckCallIds()...)
	if req.GetPoolId() != "" && req.GetPoolId() != p.id {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_OTHER_POOL, "the call is for another pool").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if p.Lose {
		p.Lose = false
		return nil, errBroke
	}
	if p.ledger[req.GetCallId()] != nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CONFLICT, "the call %s was seen before", req.GetCallId()).
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	}
	if err := p.checkExpected(req); err != nil {
		p.seen.Refused = append(p.seen.Refused, req)
		return nil, err
	}
	c := &call{stop: stop, done: make(chan struct{}), more: make(chan struct{})}
	p.ledger[req.GetCallId()] = c
	p.seen.Calls = append(p.seen.Calls, req)
	return c, nil
}

func (p *Pool) callTool(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
	if _, err := identity.FromContext(ctx); err != nil {
		return err
	}
	if p.Detached {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c, err := p.admit(req, stop)
	if err != nil {
		return err
	}
	if p.Before != nil {
		p.Before(req)
	}
	run := p.CallFn
	if run == nil {
		run = echo
	}
	c.err = run(context.WithValue(ctx, callKey{}, c), req, func(m *mcppoolv1.CallToolResponse) error {
		if r := m.GetResult(); r != nil {
			c.result = r
		}
		if err := send(m); !p.Detached {
			return err
		}
		return nil
	})
	close(c.done)
	return c.err
}

func echo(_ context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
	var in struct{ Text string }
	if err := json.Unmarshal([]byte(req.GetInputJson()), &in); err != nil {
		return err
	}
	return send(TextResult(in.Text, false))
}

// AttachCall implements McpPoolService.
func (p *Pool) AttachCall(req *mcppoolv1.AttachCallRequest, stream grpc.ServerStreamingServer[mcppoolv1.AttachCallResponse]) error {
	if p.BeforeAttach != nil {
		p.BeforeAttach()
	}
	p.mu.Lock()
	p.seen.Attached = append(p.seen.Attached, req)
	c, outcome := p.ledger[req.GetCallId()], errs.OutcomeUnknown
	if req.GetPoolId() == p.id {
		outcome = errs.OutcomeNotExecuted
	}
	if c == nil {
		c = &call{}
		p.ledger[req.GetCallId()] = c
	}
	p.mu.Unlock()
	var result *mcppoolv1.CallResult
	var err error
	switch {
	case c.done != nil:
		if err := p.follow(c, stream); err != nil {
			return err
		}
		result, err = c.result, c.err
	case req.GetTaskId() != "" && p.TaskFn != nil:
		result, err = p.TaskFn(req)
	default:
		err = errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "this pool does not know the call %s", req.GetCallId()).
			With(errs.OutcomeKey, outcome)
	}
	if result == nil {
		return err
	}
	return stream.Send(&mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Result{Result: result}})
}

// AckCall implements McpPoolService.
func (p *Pool) AckCall(_ context.Context, req *mcppoolv1.AckCallRequest) (*mcppoolv1.AckCallResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Acked = append(p.seen.Acked, req.GetCallIds()...)
	return &mcppoolv1.AckCallResponse{Acknowledged: uint32(len(req.GetCallIds()))}, nil
}

// CancelCall implements McpPoolService.
func (p *Pool) CancelCall(_ context.Context, req *mcppoolv1.CancelCallRequest) (*mcppoolv1.CancelCallResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.ledger[req.GetCallId()]
	if c == nil || c.stop == nil {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "no call %s", req.GetCallId())
	}
	c.stop(nil)
	p.seen.Stopped = append(p.seen.Stopped, req.GetCallId())
	return &mcppoolv1.CancelCallResponse{}, nil
}

// ReleaseSession implements McpPoolService.
func (p *Pool) ReleaseSession(_ context.Context, req *mcppoolv1.ReleaseSessionRequest) (*mcppoolv1.ReleaseSessionResponse, error) {
	p.release(req.GetSessionId(), req.GetAckCallIds())
	return &mcppoolv1.ReleaseSessionResponse{Released: 1}, nil
}

func (p *Pool) release(session string, acks []string) {
	if p.ReleaseFn != nil {
		p.ReleaseFn(session)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Released, p.seen.Acked = append(p.seen.Released, session), append(p.seen.Acked, acks...)
}

// Hang makes every call wait until it is stopped.
func Hang(ctx context.Context, _ *mcppoolv1.CallToolRequest, _ func(*mcppoolv1.CallToolResponse) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// TextResult returns a call's result with a text.
func TextResult(text string, isError bool) *mcppoolv1.CallToolResponse {
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
		IsError: isError, Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}},
	}}}
}
