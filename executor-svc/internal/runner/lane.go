package runner

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
)

// lane is a stream on which a session makes its calls of one server, one after another: opening a stream for each call cost about
// as much as everything else between the two services. It is in nobody's hands between two calls.
type lane struct {
	pool   string // it went to; another one's calls are refused there
	stream grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
	drop   context.CancelFunc
	// to is where the stream went; set when it has ended. Without an address it went nowhere.
	to peer.Peer

	// watched is the context whose end drops the lane, while a call that is waited for in it has the lane; unwatch ends that.
	watched context.Context
	unwatch func() bool
	mu      sync.Mutex
	holder  context.Context // guarded by mu; that of the call that has the lane, if any
}

// hold gives the lane to a call that is waited for in ctx; false where that has ended.
func (l *lane) hold(ctx context.Context) bool {
	l.mu.Lock()
	l.holder = ctx
	l.mu.Unlock()
	if l.watched != ctx {
		if l.unwatch != nil {
			l.unwatch()
		}
		l.watched = ctx
		l.unwatch = context.AfterFunc(ctx, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.holder == ctx {
				l.drop()
			}
		})
	}
	return ctx.Err() == nil
}

// rest takes the lane from its call.
func (l *lane) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = nil
}

// end drops the lane for good.
func (l *lane) end() {
	l.unwatch()
	l.drop()
}

// send sends a call on the session's lane to its server. A lane that ended while nobody used it took nothing: then there is a new
// one. sent is false where it is certain that no pool got the call.
func (s *Session) send(ctx context.Context, msg *mcppoolv1.CallToolsRequest, c *call) (l *lane, sent bool, err error) {
	if err := c.mayBegin(ctx); err != nil {
		return nil, false, err
	}
	mcpID, pool := msg.GetCall().GetMcpId(), msg.GetCall().GetPoolId()
	if l := s.takeLane(mcpID, pool); l != nil {
		if l.hold(ctx) && l.stream.Send(msg) == nil {
			return l, true, nil
		}
		l.end()
	}
	// The stream lives longer than the call that it is opened for.
	base, drop := context.WithCancel(context.WithoutCancel(ctx))
	l = &lane{pool: pool, drop: drop}
	l.hold(ctx)
	l.stream, err = s.r.pool.CallTools(s.toServer(base, mcpID), grpc.Peer(&l.to), inproc.Sharing())
	if err == nil {
		if err := c.mayBegin(ctx); err != nil { // opening it took a while
			l.end()
			return nil, false, err
		}
		err = l.stream.Send(msg)
	}
	if errors.Is(err, io.EOF) {
		_, err = l.stream.Recv() // why it ended
	}
	if err != nil {
		sent = l.to.Addr != nil
		l.end()
		return nil, sent, err
	}
	return l, true, nil
}

// mayBegin says why a call is not to be sent any more. Where nobody waits for it any longer, nothing is said of its outcome: that is for
// its next owner to find out.
func (c *call) mayBegin(ctx context.Context) error {
	if c.deaf.Load() {
		return errStopped
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// errStopped: the call was told to stop before it was sent.
var errStopped = errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the call was told to stop before it began").
	With(errs.OutcomeKey, errs.OutcomeNotExecuted)

// doubtful makes an error of Pawl's own about a request, which says nothing of the call that the request is about, one that says no
// more than that: a pool that does not take the executor's credential any more, say, may have made the call before.
func doubtful(err error) error {
	e := errs.From(err)
	if e == nil || e.Metadata[errs.OutcomeKey] != "" || e.Reason == commonv1.ErrorReason_ERROR_REASON_CALL_NOT_FOUND {
		return err
	}
	switch e.Code {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.Unimplemented:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "the MCP pool does not say what became of the call: %w", err)
	}
	return err
}

// recv brings what the running call says. The end of a call by an error is an error of that call alone.
func (l *lane) recv() (msg *mcppoolv1.CallToolResponse, ended bool, err error) {
	res, err := l.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, false, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"the pool ended the stream of calls in the middle of one; this is a defect of the pool, please report it")
	case err != nil:
		return nil, false, err
	case res.GetError() != nil:
		return nil, true, status.ErrorProto(res.GetError())
	}
	return res.GetCall(), res.GetCall().GetResult() != nil, nil
}

// callOn makes a call. sent is false where it is certain that no pool got it.
func (s *Session) callOn(ctx context.Context, m *mcppoolv1.CallToolsRequest, li *listener) (res *mcppoolv1.CallResult, sent bool, err error) {
	l, sent, err := s.send(ctx, m, li.call)
	if err != nil {
		return nil, sent, err
	}
	ended, broken := false, false
	res, err = receive(ctx, l.drop, func() (msg *mcppoolv1.CallToolResponse, err error) {
		msg, ended, err = l.recv()
		broken = err != nil && !ended
		return msg, err
	}, li)
	sent = !broken || l.to.Addr != nil
	if broken && ctx.Err() == nil && status.Code(err) != codes.Unimplemented {
		err = doubtful(err)
	}
	// A pool that refuses calls is not the one for the next.
	refuses := err != nil && (refused(err) || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_OTHER_POOL)
	l.rest()
	if ctx.Err() != nil || !ended || refuses || !s.keepLane(m.GetCall().GetMcpId(), l) {
		l.end()
	}
	return res, sent, err
}

// takeLane returns the session's lane to a server, or one that another task has left, which nobody else has then; nil where there is
// none.
func (s *Session) takeLane(mcpID, pool string) *lane {
	s.mu.Lock()
	l := s.lanes[mcpID]
	delete(s.lanes, mcpID)
	s.mu.Unlock()
	switch {
	case l == nil:
		return s.r.idle.take(laneKey{s.head.GetUserSub(), mcpID, pool})
	case l.pool != pool:
		l.end()
		return nil
	}
	return l
}

// keepLane keeps a lane for the next call; false where there is to be none.
func (s *Session) keepLane(mcpID string, l *lane) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left || s.lanes[mcpID] != nil {
		return false
	}
	if s.lanes == nil {
		s.lanes = make(map[string]*lane)
	}
	s.lanes[mcpID] = l
	return true
}

// leaveLanes keeps the lanes for other tasks, and returns those that are not kept, on which no more calls come; one that a call still
// has is dropped when that ends.
func (s *Session) leaveLanes() (ending []*lane) {
	s.mu.Lock()
	lanes := s.lanes
	s.lanes, s.left = nil, true
	s.mu.Unlock()
	for mcpID, l := range lanes {
		if !s.r.idle.park(laneKey{s.head.GetUserSub(), mcpID, l.pool}, l) {
			l.close()
			ending = append(ending, l)
		}
	}
	return ending
}

// close says that no more calls come.
func (l *lane) close() { _ = l.stream.CloseSend() } // where it has ended, Recv says so

// ends waits for the end of a stream on which nothing is sent any more.
func (l *lane) ends(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.drop)
	_, _ = l.stream.Recv() // its end, whatever that is: no call runs on it
	stop()
	l.end()
}
