package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

const inputSchema = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`

// pool is one process of the pool: it knows the calls that it got, and forgets them when it dies.
type pool struct {
	w    *world
	id   string
	dead chan struct{}

	mu     sync.Mutex // guards what follows
	calls  map[string]*call
	graves map[string]string // outcomes of calls that are refused, by id
	epochs map[string]uint64
	conns  []*conn
	count  int
}

// call is a call that a pool knows.
type call struct {
	req  *mcppoolv1.CallToolRequest
	stop chan struct{}
	halt func()
	done chan struct{}
	res  *mcppoolv1.CallResult
	err  error
	// asked is what it waits for, and task the MCP task that does it; more is closed when these change.
	asked []*asking
	task  *mcpTask
	more  chan struct{}
	did   bool // its side effect has happened
}

// conn is a stream between a process and the pool. It can break while what it carries goes on.
type conn struct {
	label string
	ctx   context.Context
	// broken ends it for both sides.
	broken chan struct{}
	snap   func()
	out    chan message
	proc   *proc
	callID string
	epoch  uint64
}

type message struct {
	progress *mcppoolv1.CallProgress
	asked    *mcppoolv1.CallInputRequired
	task     *mcppoolv1.CallTask
	res      *mcppoolv1.CallResult
	err      error
}

func newPool(w *world, no int) *pool {
	return &pool{
		w: w, id: fmt.Sprintf("P%d", no), dead: make(chan struct{}), calls: map[string]*call{}, graves: map[string]string{}, epochs: map[string]uint64{},
	}
}

// poolClient is the pool as one process reaches it.
type poolClient struct {
	mcppoolv1.McpPoolServiceClient // nil: the executor does not call the other methods
	w                              *world
	p                              *proc
}

func unreachable() error { return status.Error(codes.Unavailable, "connection refused") }
func cut() error         { return status.Error(codes.Unavailable, "connection reset by peer") }

// reach waits for a request to be sent, and returns the pool that gets it.
func (c *poolClient) reach(ctx context.Context, what string) (*pool, roll, error) {
	label := c.p.name + " " + what
	if actor, ok := ctx.Value(actorKey{}).(string); ok {
		label = actor + " " + what
	}
	r, err := c.w.s.pass(ctx, c.p.dead, label)
	switch p := c.w.livingPool(); {
	case err != nil:
		return nil, 0, ended(ctx)
	case p == nil || r.oneIn(c.w.cfg.netFails, 3):
		c.w.s.note(label+" cannot be sent", r)
		return nil, r, unreachable()
	default:
		return p, r, nil
	}
}

func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return status.Error(codes.Canceled, "the process is dead")
}

func (c *poolClient) connect(ctx context.Context, p *pool, callID string, epoch uint64, opts []grpc.CallOption) *conn {
	sentTo(opts)
	k := &conn{ctx: ctx, broken: make(chan struct{}), out: make(chan message, 16), proc: c.p, callID: callID, epoch: epoch}
	k.snap = sync.OnceFunc(func() { close(k.broken) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	k.label = fmt.Sprintf("%s conn %d", p.id, p.count)
	p.conns = append(p.conns, k)
	return k
}

// sentTo sets the peer's address, which tells the caller that the request was sent.
func sentTo(opts []grpc.CallOption) {
	for _, o := range opts {
		if to, ok := o.(grpc.PeerCallOption); ok {
			to.PeerAddr.Addr = address{}
		}
	}
}

type address struct{}

func (address) Network() string { return "sim" }
func (address) String() string  { return "pool" }

func (c *poolClient) AttachCall(ctx context.Context, req *mcppoolv1.AttachCallRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[mcppoolv1.AttachCallResponse], error) {
	short := c.w.book.shortID(req.GetCallId())
	p, _, err := c.reach(ctx, "attaches to "+short)
	if err != nil {
		return nil, err
	}
	c.w.book.sends(c.p, req.GetCallId(), req.GetSessionId(), req.GetEpoch())
	k := c.connect(ctx, p, req.GetCallId(), req.GetEpoch(), opts)
	sent := proto.CloneOf(req) // the caller may change it for the next request
	c.w.goes(func() { p.serveAttach(k, sent, short) })
	return attachStream{conn: k, w: c.w}, nil
}

func (c *poolClient) AckCall(ctx context.Context, req *mcppoolv1.AckCallRequest, _ ...grpc.CallOption) (*mcppoolv1.AckCallResponse, error) {
	p, _, err := c.reach(ctx, "acknowledges")
	if err != nil {
		return nil, err
	}
	p.ack(req.GetCallIds())
	return &mcppoolv1.AckCallResponse{}, nil
}

func (c *poolClient) ReleaseSession(ctx context.Context, req *mcppoolv1.ReleaseSessionRequest, _ ...grpc.CallOption) (*mcppoolv1.ReleaseSessionResponse, error) {
	p, _, err := c.reach(ctx, "releases "+c.w.book.name(req.GetSessionId()))
	if err != nil {
		return nil, err
	}
	p.ack(req.GetAckCallIds())
	return &mcppoolv1.ReleaseSessionResponse{}, nil
}

func (c *poolClient) CancelCall(ctx context.Context, req *mcppoolv1.CancelCallRequest, _ ...grpc.CallOption) (*mcppoolv1.CancelCallResponse, error) {
	p, _, err := c.reach(ctx, "stops "+c.w.book.shortID(req.GetCallId()))
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	k := p.calls[req.GetCallId()]
	p.mu.Unlock()
	if k == nil || k.ended() {
		return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, "no such call runs")
	}
	k.halt()
	return &mcppoolv1.CancelCallResponse{}, nil
}

func (c *poolClient) GetMcpServer(ctx context.Context, req *mcppoolv1.GetMcpServerRequest, _ ...grpc.CallOption) (*mcppoolv1.McpServer, error) {
	if _, _, err := c.reach(ctx, "looks at server "+req.GetId()); err != nil {
		return nil, err
	}
	return &mcppoolv1.McpServer{Id: req.GetId()}, nil
}

func (c *poolClient) ListMcpServers(ctx context.Context, _ *mcppoolv1.ListMcpServersRequest, _ ...grpc.CallOption) (*mcppoolv1.ListMcpServersResponse, error) {
	if _, _, err := c.reach(ctx, "lists servers"); err != nil {
		return nil, err
	}
	return &mcppoolv1.ListMcpServersResponse{McpServers: []*mcppoolv1.McpServer{{Id: "s"}}}, nil
}

func (c *poolClient) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest, _ ...grpc.CallOption) (*mcppoolv1.ListToolsResponse, error) {
	p, r, err := c.reach(ctx, "lists tools for "+c.w.book.name(req.GetSessionId()))
	if err != nil {
		return nil, err
	}
	if req.GetMcpId() != "s" || r.oneIn(100, 4) {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "%s is not active", req.GetMcpId())
	}
	out := &mcppoolv1.ListToolsResponse{PoolId: p.id}
	for _, id := range []string{toolDestroy, toolIdempotent, toolRead, toolWrite} {
		_, name := flow.ToolName(id)
		out.Tools = append(out.Tools, &commonv1.Tool{
			Id: id, McpId: "s", Name: name, InputSchemaJson: inputSchema, Effect: effects[id], Idempotent: id == toolIdempotent,
			RiskFloor: floors[id], DefinitionHash: "hash-" + name, ConfigRevision: c.w.revision.Load(),
		})
	}
	return out, nil
}

// attachStream is a connection as the process reads it.
type attachStream struct {
	grpc.ClientStream
	*conn
	w *world
}

func (s attachStream) Recv() (*mcppoolv1.AttachCallResponse, error) {
	m, err := s.recv(s.w)
	switch {
	case err != nil:
		return nil, err
	case m.err != nil:
		return nil, m.err
	case m.progress != nil:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Progress{Progress: m.progress}}, nil
	case m.asked != nil:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_InputRequired{InputRequired: m.asked}}, nil
	case m.task != nil:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Task{Task: m.task}}, nil
	}
	return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Result{Result: m.res}}, nil
}

func (s attachStream) Context() context.Context { return s.ctx }

// recv gives the next message to a process that is alive.
func (k *conn) recv(w *world) (message, error) {
	if k.ctx.Err() != nil || k.proc.isDead() {
		return message{}, ended(k.ctx)
	}
	select {
	case m := <-k.out: // what came before the connection broke
		return k.read(w, m)
	default:
	}
	select {
	case m := <-k.out:
		return k.read(w, m)
	case <-k.ctx.Done():
		return message{}, ended(k.ctx)
	case <-k.proc.dead:
		return message{}, ended(k.ctx)
	case <-k.broken:
		return message{}, cut()
	}
}

func (k *conn) read(w *world, m message) (message, error) {
	if m.res != nil {
		w.book.told(cameBack{k.callID, textOf(m.res), m.res.GetIsError(), k.proc, k.epoch})
	}
	return m, nil
}

// gone reports whether a connection has no reader left.
func (k *conn) gone() bool {
	select {
	case <-k.broken:
		return true
	default:
		return k.ctx.Err() != nil
	}
}

func textOf(r *mcppoolv1.CallResult) string {
	var all []string
	for _, c := range r.GetContent() {
		all = append(all, c.GetText())
	}
	return strings.Join(all, "\n")
}

func (k *call) ended() bool {
	select {
	case <-k.done:
		return true
	default:
		return false
	}
}

// put is the pool's side of a connection; unread messages are lost.
func (k *conn) put(m message) {
	select {
	case <-k.broken:
	case k.out <- m:
	default:
	}
}

func (k *conn) refuse(code codes.Code, reason commonv1.ErrorReason, outcome, what string) {
	k.put(message{err: errs.New(code, reason, "%s", what).With(errs.OutcomeKey, outcome)})
}

const (
	failedPrecondition = codes.FailedPrecondition
	staleOwner         = commonv1.ErrorReason_ERROR_REASON_STALE_OWNER
	definitionChanged  = commonv1.ErrorReason_ERROR_REASON_DEFINITION_CHANGED
)
