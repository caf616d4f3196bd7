package serve

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
)

const (
	// recheckEvery is the least time between two checks of a stream's credential.
	recheckEvery = time.Second
	// sweepEvery is the most time between two looks at all open streams.
	sweepEvery = 2 * time.Second
	// sendRate is the number of bytes for each of which a client has a second more to read a large message.
	sendRate = 64 << 10
)

// transportStream is what the streams of gRPC's HTTP/2 server and of inproc have beside the methods of grpc.ServerTransportStream.
type transportStream interface {
	// WriteStatus ends the stream with a status, and its context, so that a Send or Recv that waits returns.
	WriteStatus(st *status.Status) error
}

// checkedStream validates each message that it receives. Before it passes a message on, in either direction, it checks the credential again if
// the last check is older than recheckEvery.
type checkedStream struct {
	grpc.ServerStream
	*interceptor
	ctx     context.Context // with the principal
	method  string
	begun   time.Time
	checked atomic.Int64 // time of the last successful check of the credential, in nanoseconds since begun
	limit   int          // of a message
	held    *Holding     // what the call counts for
	streams bool         // the answer is a stream
	// receives is true if the request is a stream: it counts for its largest message all the time, because the next one may be that large.
	receives bool
	// sendUntil is when the client must have read enough for the running Send, in nanoseconds since begun; 0: no Send runs, or it may take any time.
	sendUntil atomic.Int64
	last      int                   // bytes of the last message, which may not be with the client yet
	ended     atomic.Pointer[error] // why openStreams ended the stream
	transport transportStream       // nil for calls of one message each way
}

func (s *checkedStream) Context() context.Context { return s.ctx }

// SendMsg returns once a large message of a stream is written, so that the handler can count its memory as freed; small ones may be on their way.
func (s *checkedStream) SendMsg(m any) error {
	now := time.Since(s.begun)
	if err := s.recheck(now); err != nil {
		return err
	}
	msg, ok := m.(proto.Message)
	if s.writeTime == 0 || !s.streams || s.receives || !ok {
		return s.ServerStream.SendMsg(m)
	}
	size, pending := proto.Size(msg), s.last
	if s.last = size; size >= awaitedBytes {
		pending, s.last = pending+size, 0
	}
	s.sendUntil.Store(int64(now + s.writeTime + time.Duration(pending)*time.Second/sendRate))
	defer s.sendUntil.Store(0)
	if size < awaitedBytes {
		return s.ServerStream.SendMsg(m)
	}
	large := &awaited{Message: msg, freed: make(chan struct{})}
	if err := s.ServerStream.SendMsg(large); err != nil {
		return err
	}
	select {
	case <-large.freed:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// RecvMsg checks the credential when the message has arrived, which may be long after the wait began.
func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if msg, ok := m.(proto.Message); ok && !s.receives {
		s.held.Shrink(CallBytes(s.streams, int64(proto.Size(msg))))
	}
	if err := s.recheck(time.Since(s.begun)); err != nil {
		return err
	}
	return s.validate(m, s.limit)
}

// recheck checks the credential if that is due. now is the time since begun, which no change of the clock affects.
func (s *checkedStream) recheck(now time.Duration) error {
	if now-time.Duration(s.checked.Load()) < recheckEvery {
		return nil
	}
	if _, err := identity.Authenticate(s.ctx, s.auth, s.method); err != nil {
		return err
	}
	s.checked.Store(int64(now))
	return nil
}

// mustEnd returns why the stream has to end although it may be idle, or nil.
func (s *checkedStream) mustEnd() error {
	now := time.Since(s.begun)
	if until := s.sendUntil.Load(); until != 0 && int64(now) > until {
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
			"the client did not read from the stream in time, so the stream was ended; a task's events can be watched again, after the seq of the last one that arrived")
	}
	return s.recheck(now)
}

// openStreams are the streams that a server serves. While there are any, a timer ends those whose credential was revoked or has expired, and those
// whose clients do not read: a stream that waits notices neither.
type openStreams struct {
	every   time.Duration // between two sweeps
	mu      sync.Mutex    // guards the following
	streams map[*checkedStream]struct{}
	timer   *time.Timer // nil while there are no streams
}

func (o *openStreams) add(s *checkedStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.streams == nil {
		o.streams = map[*checkedStream]struct{}{}
	}
	o.streams[s] = struct{}{}
	if o.timer == nil {
		o.timer = time.AfterFunc(o.every, o.sweep)
	}
}

func (o *openStreams) remove(s *checkedStream) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.streams, s)
}

func (o *openStreams) sweep() {
	o.mu.Lock()
	streams := slices.Collect(maps.Keys(o.streams))
	o.mu.Unlock()
	for _, s := range streams {
		if err := s.mustEnd(); err != nil {
			s.ended.Store(&err)
			_ = s.transport.WriteStatus(identity.ErrorFor(s.ctx, err).GRPCStatus()) // fails if the connection has ended
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.streams) == 0 {
		o.timer = nil
		return
	}
	o.timer.Reset(o.every)
}
