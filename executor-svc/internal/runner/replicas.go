package runner

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"
)

// Replicas reach one of several pool processes, which a call by server and user does not: since that call was made, another
// process may have become responsible.
type Replicas interface {
	// Addrs are all of them, as far as anybody knows.
	Addrs(ctx context.Context) ([]string, error)
	// At connects to one. Close what it returns.
	At(addr string) (*grpc.ClientConn, error)
}

const (
	// replicaPatience is how long a replica that cannot be reached is asked again what became of a call. One that ended does not
	// come back as the same pool; what a network hides for longer becomes an unknown outcome.
	replicaPatience = 3 * time.Second
	// askLimit bounds one look at one replica.
	askLimit = 2 * time.Second
	// mostPlaces bounds what is remembered of where pools are. They are found again by asking all.
	mostPlaces = 1000
)

// where is the pool that keeps something of a task's, and a server whose calls it was made by.
type where struct{ pool, mcp string }

// places remembers at which address each pool answers.
type places struct {
	mu sync.Mutex
	at map[string]string // guarded by mu; the pool by address
}

func (p *places) note(pool string, to *peer.Peer) {
	if to.Addr == nil || pool == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at == nil || len(p.at) >= mostPlaces {
		p.at = make(map[string]string)
	}
	p.at[to.Addr.String()] = pool
}

// of is the address of a pool; empty where it is not known.
func (p *places) of(pool string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr, id := range p.at {
		if id == pool {
			return addr
		}
	}
	return ""
}

// toServer makes calls about one MCP server go to the replica that has its connection.
func (s *Session) toServer(ctx context.Context, mcpID string) context.Context {
	if s.r.cfg.Replicas == nil {
		return ctx
	}
	return serve.WithAffinity(ctx, mcpID, s.head.GetUserSub())
}

// moved says that a call was not made, and that another pool is the one to make it now.
type moved struct{ pool string }

func (*moved) Error() string { return "another MCP pool is responsible now" }

// otherPool returns the pool that is responsible for a server now, where it is another one than the one that was asked for.
func (s *Session) otherPool(ctx context.Context, req *mcppoolv1.CallToolRequest) *moved {
	s.forget()
	tools, err := s.toolset(ctx)
	if err != nil {
		return nil //nolint:nilerr // the call stays with the pool that refused it, and is tried again
	}
	if id := tools.poolIDs[req.GetMcpId()]; id != "" && id != req.GetPoolId() {
		return &moved{pool: id}
	}
	return nil
}

// use notes that a pool has something of this task's.
func (s *Session) use(w where) {
	if s.r.cfg.Replicas == nil || w.pool == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used == nil {
		s.used = make(map[string]string)
	}
	s.used[w.pool] = w.mcp
}

// atPool asks something of the pool that has it: the one that is responsible now and, where that is another one, the one at the
// address that is remembered. It may be asked of both.
func (s *Session) atPool(ctx context.Context, w where, ask func(context.Context, mcppoolv1.McpPoolServiceClient, ...grpc.CallOption) error) error {
	if s.r.cfg.Replicas == nil {
		return ask(ctx, s.r.pool)
	}
	var to peer.Peer
	err := ask(s.toServer(ctx, w.mcp), s.r.pool, grpc.Peer(&to))
	addr := s.r.places.of(w.pool)
	if addr == "" || to.Addr != nil && to.Addr.String() == addr {
		return err
	}
	return s.direct(addr, func(pool mcppoolv1.McpPoolServiceClient) error { return ask(ctx, pool) })
}

func (s *Session) direct(addr string, ask func(mcppoolv1.McpPoolServiceClient) error) error {
	conn, err := s.r.cfg.Replicas.At(addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return ask(mcppoolv1.NewMcpPoolServiceClient(conn))
}

// everywhere are the addresses of all replicas, first the one at which a pool was last seen.
func (s *Session) everywhere(ctx context.Context, pool string) []string {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	all, err := s.r.cfg.Replicas.Addrs(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "finding the replicas of the MCP pool", "error", err)
	}
	first := s.r.places.of(pool)
	if first == "" {
		return all
	}
	return append([]string{first}, slices.DeleteFunc(slices.Clone(all), func(a string) bool { return sameAddr(a, first) })...)
}

func sameAddr(a, b string) bool {
	ha, pa, _ := net.SplitHostPort(a)
	hb, pb, _ := net.SplitHostPort(b)
	return pa == pb && ha == hb
}

// attachAnywhere asks the pool that is responsible now what became of a call and, where that is not the one that was to make it,
// all others: only that one can prove that it did not.
func (s *Session) attachAnywhere(ctx context.Context, mcpID string, req *mcppoolv1.AttachCallRequest, l *listener) (*mcppoolv1.CallResult, error) {
	res, err := s.attachToCall(ctx, mcpID, req, l)
	if l.taskID == "" || !notKnown(err) || errs.From(err).Metadata[errs.OutcomeKey] == notExecuted {
		return res, err
	}
	named := proto.CloneOf(req) // who was asked may still read the other
	l.name(named)               // no pool has the call any more: the server is asked
	return attachOver(s.toServer(ctx, mcpID), s.r.pool, named, l)
}

// attachToCall is attachAnywhere for what pools know.
func (s *Session) attachToCall(ctx context.Context, mcpID string, req *mcppoolv1.AttachCallRequest, l *listener) (*mcppoolv1.CallResult, error) {
	res, err := attachOver(s.toServer(ctx, mcpID), s.r.pool, req, l)
	unknown := func(err error) bool { return elsewhere(err, req.GetPoolId()) }
	if s.r.cfg.Replicas == nil || !unknown(err) {
		return res, err
	}
	for deadline := time.Now().Add(replicaPatience); ; {
		found, hidden, said := s.search(ctx, req.GetPoolId(), unknown, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) (err error) {
			res, err = attachOver(ctx, pool, req, l)
			return err
		})
		if found {
			return res, said
		}
		if !hidden || time.Now().After(deadline) || !sleep(ctx, 200*time.Millisecond) {
			return nil, err
		}
	}
}

// search asks one replica after the other, first the one at which a pool was last seen, until one has something to say; unknown
// are the errors of those that have not. hidden: one of them could not be asked.
func (s *Session) search(ctx context.Context, pool string, unknown func(error) bool, ask func(context.Context, mcppoolv1.McpPoolServiceClient) error) (found, hidden bool, err error) {
	for _, addr := range s.everywhere(ctx, pool) {
		err := s.direct(addr, func(pool mcppoolv1.McpPoolServiceClient) error { return ask(ctx, pool) })
		switch {
		case unreached(err):
			hidden = true
		case !unknown(err):
			return true, hidden, err
		}
	}
	return false, hidden, nil
}

// unreached says whether an error tells that a replica could not be asked, and nothing of a call.
func unreached(err error) bool {
	if err == nil {
		return false
	}
	e := errs.From(err)
	return e.Metadata[errs.OutcomeKey] == "" && (e.Reason == commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR || e.Code == codes.DeadlineExceeded)
}

func attachOver(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, req *mcppoolv1.AttachCallRequest, l *listener) (*mcppoolv1.CallResult, error) {
	ctx, drop := context.WithCancel(ctx)
	defer drop()
	stream, err := pool.AttachCall(ctx, req)
	if err != nil {
		return nil, doubtful(err)
	}
	res, err := receive(ctx, drop, stream.Recv, l)
	return res, doubtful(err)
}

// poolKey is where a pool says which one it is that does not know a call.
const poolKey = "pool_id"

// elsewhere says whether a pool does not know a call that another one was to make.
func elsewhere(err error, pool string) bool {
	if !notKnown(err) {
		return false
	}
	e := errs.From(err)
	return e.Metadata[errs.OutcomeKey] != notExecuted && pool != "" && e.Metadata[poolKey] != pool
}

// cancelAnywhere asks for a call to stop, wherever it runs.
func (s *Session) cancelAnywhere(ctx context.Context, w where, req *mcppoolv1.CancelCallRequest) error {
	_, err := s.r.pool.CancelCall(s.toServer(ctx, w.mcp), req)
	if s.r.cfg.Replicas == nil || err == nil {
		return err
	}
	found, _, _ := s.search(ctx, w.pool, func(err error) bool { return err != nil }, briefly(func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) error {
		_, err := pool.CancelCall(ctx, req)
		return err
	}))
	if found {
		return nil
	}
	return err
}

// answerAnywhere gives an answer to the pool that has the call. hidden: that may be one which could not be asked.
func (s *Session) answerAnywhere(ctx context.Context, w where, req *mcppoolv1.AnswerCallRequest, to *peer.Peer) (hidden bool, err error) {
	_, err = s.r.pool.AnswerCall(s.toServer(ctx, w.mcp), req, grpc.Peer(to))
	if s.r.cfg.Replicas == nil || !notKnown(err) {
		return false, err
	}
	found, hidden, said := s.search(ctx, w.pool, notKnown, briefly(func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) error {
		_, err := pool.AnswerCall(ctx, req)
		return err
	}))
	if found {
		return false, said
	}
	return hidden, err
}

func notKnown(err error) bool {
	return errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND
}

// briefly bounds what is asked of one replica.
func briefly(ask func(context.Context, mcppoolv1.McpPoolServiceClient) error) func(context.Context, mcppoolv1.McpPoolServiceClient) error {
	return func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) error {
		ctx, done := context.WithTimeout(ctx, askLimit)
		defer done()
		return ask(ctx, pool)
	}
}

// sleep waits; false where ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ack is a call whose result is durable, and the pool that keeps it too.
type ack struct {
	where
	call string
}
