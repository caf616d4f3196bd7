package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	mcppoolv1.McpPoolServiceClient // what is not called here does not exist
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
	for _, o := range opts {
		if to, ok := o.(grpc.PeerCallOption); ok {
			to.PeerAddr.Addr = address{}
		}
	}
	k := &conn{ctx: ctx, broken: make(chan struct{}), out: make(chan message, 16), proc: c.p, callID: callID, epoch: epoch}
	k.snap = sync.OnceFunc(func() { close(k.broken) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	k.label = fmt.Sprintf("%s conn %d", p.id, p.count)
	p.conns = append(p.conns, k)
	return k
}

type address struct{}

func (address) Network() string { return "sim" }
func (address) String() string  { return "pool" }

func (c *poolClient) CallTool(ctx context.Context, req *mcppoolv1.CallToolRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[mcppoolv1.CallToolResponse], error) {
	if c.w.plant.request != nil {
		c.w.plant.request(req)
	}
	short := c.w.book.shortID(req.GetCallId())
	p, _, err := c.reach(ctx, "sends call "+short)
	if err != nil {
		return nil, err
	}
	c.w.book.sends(c.p, req.GetCallId(), req.GetSessionId(), req.GetEpoch())
	k := c.connect(ctx, p, req.GetCallId(), req.GetEpoch(), opts)
	c.w.goes(func() { p.serveCall(k, req, short) })
	return callStream{conn: k, w: c.w}, nil
}

func (c *poolClient) AttachCall(ctx context.Context, req *mcppoolv1.AttachCallRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[mcppoolv1.AttachCallResponse], error) {
	short := c.w.book.shortID(req.GetCallId())
	p, _, err := c.reach(ctx, "attaches to "+short)
	if err != nil {
		return nil, err
	}
	c.w.book.sends(c.p, req.GetCallId(), req.GetSessionId(), req.GetEpoch())
	k := c.connect(ctx, p, req.GetCallId(), req.GetEpoch(), opts)
	c.w.goes(func() { p.serveAttach(k, req, short) })
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

// toolsWait says whether asking for tools waits for the scheduler. It cannot while a session holds its lock as long as it
// loads its tools: others of the same task then wait for that lock, which a bubble does not count as waiting.
const toolsWait = false

func (c *poolClient) ListTools(ctx context.Context, req *mcppoolv1.ListToolsRequest, _ ...grpc.CallOption) (*mcppoolv1.ListToolsResponse, error) {
	p, r := c.w.newestPool(), roll(0)
	if c.p.isDead() {
		return nil, ended(ctx)
	}
	if toolsWait {
		var err error
		if p, r, err = c.reach(ctx, "lists tools for "+c.w.book.name(req.GetSessionId())); err != nil {
			return nil, err
		}
	}
	if req.GetMcpId() != "s" || r.oneIn(100, 4) {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_MCP_SERVER_NOT_ACTIVE, "%s is not active", req.GetMcpId())
	}
	out := &mcppoolv1.ListToolsResponse{PoolId: p.id}
	for _, id := range []string{toolDestroy, toolIdempotent, toolRead, toolWrite} {
		_, name := flow.ToolName(id)
		out.Tools = append(out.Tools, &commonv1.Tool{
			Id: id, McpId: "s", Name: name, InputSchemaJson: inputSchema, Effect: effects[id], Idempotent: id == toolIdempotent,
			RiskFloor: floors[id], DefinitionHash: "hash-" + name, ConfigRevision: 1,
		})
	}
	return out, nil
}

// callStream and attachStream are a connection as the process reads it.
type callStream struct {
	grpc.ClientStream
	*conn
	w *world
}

func (s callStream) Recv() (*mcppoolv1.CallToolResponse, error) {
	m, err := s.recv(s.w)
	switch {
	case err != nil:
		return nil, err
	case m.progress != nil:
		return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Progress{Progress: m.progress}}, nil
	}
	return &mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: m.res}}, nil
}

func (s callStream) Context() context.Context { return s.ctx }

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
	case m.progress != nil:
		return &mcppoolv1.AttachCallResponse{Event: &mcppoolv1.AttachCallResponse_Progress{Progress: m.progress}}, nil
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
	return m, m.err
}

// gone says whether nobody reads a connection any more.
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

// put is the pool's side of a connection; what nobody reads is lost.
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
)

// serveCall takes a call that may come late: its caller may be dead by now. One that is known is followed, one that was
// asked for before is refused.
func (p *pool) serveCall(k *conn, req *mcppoolv1.CallToolRequest, short string) {
	if _, err := p.w.s.pass(context.Background(), p.dead, p.id+" gets call "+short); err != nil {
		k.snap()
		return
	}
	p.ack(req.GetAckCallIds())
	p.w.book.received(req)
	c, fresh := p.begin(k, req)
	if c == nil {
		return
	}
	if fresh {
		p.w.goes(func() { p.execute(c, short) })
	}
	p.follow(k, c, short)
}

// begin enters a call, as the pool's ledger does.
func (p *pool) begin(k *conn, req *mcppoolv1.CallToolRequest) (c *call, fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := req.GetCallId()
	fate, buried := p.graves[id]
	switch known := p.calls[id]; {
	case req.GetEpoch() < p.epochs[req.GetSessionId()]:
		outcome := errs.OutcomeNotExecuted
		if known != nil {
			outcome = errs.OutcomeUnknown
		} else if buried {
			outcome = fate
		}
		k.refuse(failedPrecondition, staleOwner, outcome, "a newer owner has been here")
		return nil, false
	case known != nil:
		return known, false
	case buried:
		k.refuse(codes.AlreadyExists, commonv1.ErrorReason_ERROR_REASON_ALREADY_EXISTS, fate, "it was asked for, or acknowledged, before")
		return nil, false
	case !time.Now().Before(req.GetStartBy().AsTime()):
		k.refuse(failedPrecondition, commonv1.ErrorReason_ERROR_REASON_TOO_LATE, errs.OutcomeNotExecuted, "too late")
		p.graves[id] = errs.OutcomeNotExecuted
		return nil, false
	}
	p.epochs[req.GetSessionId()] = req.GetEpoch()
	c = &call{req: req, stop: make(chan struct{}), done: make(chan struct{})}
	c.halt = sync.OnceFunc(func() { close(c.stop) })
	p.calls[id] = c
	return c, true
}

// serveAttach follows a call that was made before, or proves what it can.
func (p *pool) serveAttach(k *conn, req *mcppoolv1.AttachCallRequest, short string) {
	if _, err := p.w.s.pass(context.Background(), p.dead, p.id+" is asked for "+short); err != nil {
		k.snap()
		return
	}
	p.mu.Lock()
	c := p.calls[req.GetCallId()]
	fate, buried := p.graves[req.GetCallId()]
	switch {
	case req.GetEpoch() < p.epochs[req.GetSessionId()]:
		p.mu.Unlock()
		k.refuse(failedPrecondition, staleOwner, errs.OutcomeUnknown, "a newer owner has been here")
		return
	case c == nil:
		p.epochs[req.GetSessionId()] = req.GetEpoch()
		if !buried {
			fate = errs.OutcomeNotExecuted
			p.graves[req.GetCallId()] = fate
		}
		if req.GetPoolId() != p.id {
			fate = errs.OutcomeUnknown
		}
		p.mu.Unlock()
		k.refuse(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND, fate, "this pool does not know it")
		return
	}
	p.epochs[req.GetSessionId()] = req.GetEpoch()
	p.mu.Unlock()
	if mcp, name := c.req.GetMcpId(), c.req.GetName(); req.GetRequestHash() != flow.RequestHash(mcp, name, c.req.GetInputJson()) {
		p.w.book.fault("%s is asked for with another hash", short)
	}
	p.follow(k, c, short)
}

// follow tells how a call ended, unless the connection breaks before.
func (p *pool) follow(k *conn, c *call, short string) {
	if k.gone() {
		return
	}
	select {
	case <-c.done:
	case <-k.broken:
		return
	case <-k.ctx.Done():
		return
	case <-p.dead:
		k.snap()
		return
	}
	r, err := p.w.s.pass(context.Background(), p.dead, p.id+" tells of "+short)
	if err != nil || r.oneIn(p.w.cfg.netFails, 5) {
		k.snap()
		return
	}
	k.put(message{res: c.res, err: c.err})
}

func (p *pool) ack(ids []string) {
	if len(ids) == 0 {
		return
	}
	p.w.book.acknowledged(ids)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if c := p.calls[id]; c != nil && c.ended() {
			delete(p.calls, id)
			p.graves[id] = errs.OutcomeUnknown
		}
	}
}

// execute is the tool. It may take long, fail in all ways there are, and have its effect after everybody who asked for it
// is gone.
func (p *pool) execute(c *call, short string) {
	r, err := p.w.s.pass(context.Background(), p.dead, "tool begins "+short)
	if err != nil {
		return // it never came to the tool
	}
	if r.oneIn(4, 6) && !p.works(c, r, short) {
		return
	}
	r2, err := p.w.s.pass(context.Background(), p.dead, "tool runs "+short)
	if err != nil {
		if r.oneIn(2, 7) { // the pool died, the server did not
			p.w.book.executed(c.req)
		}
		return
	}
	p.finish(c, r2)
	if _, err := p.w.s.pass(context.Background(), p.dead, "tool ends "+short); err == nil {
		close(c.done)
	}
}

// works takes a while, and says so. False: the call has ended already.
func (p *pool) works(c *call, r roll, short string) bool {
	lasts := time.Duration(1+r.draw(40, 8)) * 500 * time.Millisecond
	if r.oneIn(5, 9) {
		lasts = 3 * time.Minute // longer than anybody waits for a server
	}
	timeout := time.NewTimer(time.Minute)
	defer timeout.Stop()
	work := time.NewTimer(lasts)
	defer work.Stop()
	p.progress(c)
	select {
	case <-work.C:
		return true
	case <-p.dead:
		return true // what becomes of it is decided by the server
	case <-timeout.C:
		c.err = unknownOutcome(codes.DeadlineExceeded, commonv1.ErrorReason_ERROR_REASON_TIMEOUT, "the server did not answer in time")
	case <-c.stop:
		c.err = unknownOutcome(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "stopped")
	}
	if r.oneIn(2, 10) {
		p.w.book.executed(c.req)
	}
	if _, err := p.w.s.pass(context.Background(), p.dead, "tool gives up "+short); err == nil {
		close(c.done)
	}
	return false
}

func (p *pool) progress(c *call) {
	p.mu.Lock()
	conns := slices.Clone(p.conns)
	p.mu.Unlock()
	for _, k := range conns {
		if k.callID == c.req.GetCallId() {
			k.put(message{progress: &mcppoolv1.CallProgress{Progress: 1, Total: 2, Message: "half"}})
		}
	}
}

func unknownOutcome(code codes.Code, reason commonv1.ErrorReason, what string) error {
	return errs.New(code, reason, "%s", what).With(errs.OutcomeKey, errs.OutcomeUnknown)
}

// finish has the effect, or not, and says what is known of it.
func (p *pool) finish(c *call, r roll) {
	text := fmt.Sprintf("did %s", c.req.GetCallId())
	answer := func(failed bool) {
		c.res = &mcppoolv1.CallResult{IsError: failed, Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}}}
	}
	fails := r != 0
	switch n := r.draw(100, 11); {
	case fails && n < 10: // the server's own error
		if r.oneIn(2, 12) {
			p.w.book.executed(c.req)
		}
		answer(true)
	case fails && n < 16: // refused, proven
		c.err = errs.New(codes.PermissionDenied, commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED, "not allowed").
			With(errs.OutcomeKey, errs.OutcomeNotExecuted)
	case fails && n < 26: // the server's connection closed (A14)
		if r.oneIn(2, 13) {
			p.w.book.executed(c.req)
		}
		c.err = unknownOutcome(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the server's connection closed")
	default:
		p.w.book.executed(c.req)
		answer(false)
	}
}

// die forgets everything: what ran there is cut off from whoever followed it.
func (p *pool) die() {
	close(p.dead)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.conns {
		k.snap()
	}
}

// breakOne breaks one connection that is in use.
func (p *pool) breakOne(s *sched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var live []*conn
	for _, k := range p.conns {
		select {
		case <-k.broken:
		default:
			live = append(live, k)
		}
	}
	if p.conns = live; len(live) == 0 {
		return
	}
	k := live[s.rng.IntN(len(live))]
	s.note(k.label+" breaks", 1)
	k.snap()
}
