package runner

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"

	"pawl.dev/executor-svc/internal/toolcall"
)

const (
	// streamIdle is how long a stream is kept without a call.
	streamIdle = 2 * time.Second
	// maxIdleStreams bounds the streams without a call.
	maxIdleStreams = 256
)

// callStream is a CallTools stream. It carries one call after another, so that most calls need no new stream.
type callStream struct {
	key    streamKey
	stream grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
	cancel context.CancelFunc
	// to holds the pool's address once the stream has ended; it is empty if the stream reached no pool.
	to peer.Peer
	// free reports that the last call has ended, so that the stream can carry another; broken, that the stream ended during a call.
	free, broken bool
	idle         *time.Timer // closes the stream while it is in the streamPool
}

// streamKey names the calls that a stream can carry: calls of one user to one server of one pool.
type streamKey struct{ user, mcpID, poolID string }

// callOnStream sends a call on a stream and follows it. sent is false only if no pool can have received the call.
func (s *Session) callOnStream(ctx context.Context, msg *mcppoolv1.CallToolsRequest, c *call) (res *mcppoolv1.CallResult, sent bool, err error) {
	st, sent, err := s.sendOnStream(ctx, msg, c)
	if err != nil {
		return nil, sent, err
	}
	unlink := context.AfterFunc(ctx, st.cancel)
	res, err = receive(ctx, st.cancel, st.recv, c)
	if st.broken && ctx.Err() == nil && status.Code(err) != codes.Unimplemented {
		err = toolcall.AsNetworkError(err)
	}
	refuses := err != nil && (toolcall.RefusedAtShutdown(err) || errs.Reason(err) == commonv1.ErrorReason_ERROR_REASON_OTHER_POOL)
	if !unlink() || !st.free || refuses || !s.r.streams.put(st) {
		st.cancel()
	}
	return res, !st.broken || st.to.Addr != nil, err
}

// sendOnStream sends a call on an idle stream, or on a new stream if there is no idle stream or it has ended.
func (s *Session) sendOnStream(ctx context.Context, msg *mcppoolv1.CallToolsRequest, c *call) (st *callStream, sent bool, err error) {
	if err := c.maySend(ctx); err != nil {
		return nil, false, err
	}
	key := streamKey{s.head.GetUserSub(), msg.GetCall().GetMcpId(), msg.GetCall().GetPoolId()}
	if st := s.r.streams.take(key); st != nil {
		if st.stream.Send(msg) == nil {
			st.free = false
			return st, true, nil
		}
		st.cancel()
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the stream outlives this call
	defer context.AfterFunc(ctx, cancel)()
	st = &callStream{key: key, cancel: cancel}
	st.stream, err = s.r.pool.CallTools(s.toServer(base, key.mcpID), grpc.Peer(&st.to), inproc.Sharing())
	if err == nil {
		if err = c.maySend(ctx); err != nil { // opening the stream took a while
			cancel()
			return nil, false, err
		}
		err = st.stream.Send(msg)
	}
	if errors.Is(err, io.EOF) {
		_, err = st.stream.Recv() // says why the stream ended
	}
	if err != nil {
		sent = st.to.Addr != nil
		cancel()
		return nil, sent, err
	}
	return st, true, nil
}

// maySend returns an error if the call must no longer be sent. If the owner no longer waits for the call, the error names no outcome,
// because the next owner asks the pool about the call.
func (c *call) maySend(ctx context.Context) error {
	if c.stopping.Load() {
		return errStopped
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return nil
}

// errStopped is the error of a call that was stopped before it was sent.
var errStopped = errs.New(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the call was stopped before it began").
	With(errs.OutcomeKey, errs.OutcomeNotExecuted)

// recv returns the next message of the running call, and sets free and broken.
func (st *callStream) recv() (*mcppoolv1.CallToolResponse, error) {
	res, err := st.stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		err = errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
			"the pool ended the stream in the middle of a call; this is a defect of the pool, please report it")
	case err == nil && res.GetError() != nil:
		st.free = true
		return nil, status.ErrorProto(res.GetError())
	case err == nil:
		st.free = res.GetCall().GetResult() != nil
		return res.GetCall(), nil
	}
	st.broken = true
	return nil, err
}

// closeIdle ends a stream that carries no call.
func (st *callStream) closeIdle() {
	defer time.AfterFunc(releaseTimeout, st.cancel).Stop()
	_ = st.stream.CloseSend() // if the stream has ended, Recv returns the error
	_, _ = st.stream.Recv()   // waits for the end of the stream
	st.cancel()
}

// streamPool keeps idle streams for the next call with the same key. The zero value is empty.
type streamPool struct {
	mu     sync.Mutex // guards the fields below
	idle   map[streamKey][]*callStream
	count  int // of idle streams
	closed bool
}

// take removes and returns the key's stream that was used last, or nil.
func (p *streamPool) take(key streamKey) *callStream {
	p.mu.Lock()
	defer p.mu.Unlock()
	streams := p.idle[key]
	if len(streams) == 0 {
		return nil
	}
	st := streams[len(streams)-1]
	st.idle.Stop()
	p.remove(key, len(streams)-1)
	return st
}

// remove removes the i-th stream of a key. The caller holds mu.
func (p *streamPool) remove(key streamKey, i int) {
	p.count--
	if p.idle[key] = slices.Delete(p.idle[key], i, i+1); len(p.idle[key]) == 0 {
		delete(p.idle, key)
	}
}

// put keeps an idle stream. It returns false if there is no room or the pool is closed.
func (p *streamPool) put(st *callStream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.count >= maxIdleStreams {
		return false
	}
	if p.idle == nil {
		p.idle = make(map[streamKey][]*callStream)
	}
	if st.idle == nil {
		st.idle = time.AfterFunc(streamIdle, func() { p.expire(st) })
	} else {
		st.idle.Reset(streamIdle)
	}
	p.idle[st.key] = append(p.idle[st.key], st)
	p.count++
	return true
}

// expire closes a stream if it is still idle.
func (p *streamPool) expire(st *callStream) {
	p.mu.Lock()
	i := slices.Index(p.idle[st.key], st)
	if i >= 0 {
		p.remove(st.key, i)
	}
	p.mu.Unlock()
	if i >= 0 {
		st.closeIdle()
	}
}

// close ends all idle streams, and keeps none afterwards.
func (p *streamPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, streams := range p.idle {
		for _, st := range streams {
			st.idle.Stop()
			st.cancel()
		}
	}
	p.idle, p.count = nil, 0
}
