package serve

import (
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/stack"
)

// sendRate is the number of bytes for each of which a client has a second more to read a large message.
const sendRate = 64 << 10

// endStalled runs the handler of a stream, and ends the stream if a message waits longer than timeout. A Send that waits for a client to read
// returns only when its stream ends, so the handler runs in a goroutine of its own; gRPC ends its Send once endStalled returns.
func endStalled(ss grpc.ServerStream, timeout time.Duration, handler func(grpc.ServerStream) error) error {
	s := &timedStream{ServerStream: ss, timeout: timeout, stalled: make(chan struct{}, 1)}
	s.timer = time.AfterFunc(timeout, func() {
		select {
		case s.stalled <- struct{}{}:
		default:
		}
	})
	s.timer.Stop()
	ended := make(chan error, 1)
	go func() {
		stack.Reserve()
		ended <- handler(s)
	}()
	select {
	case err := <-ended:
		return err
	case <-s.stalled:
		return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
			"the client did not read from the stream in time, so the stream was ended; a task's events can be watched again, after the seq of the last one that arrived").
			GRPCStatus().Err()
	}
}

// timedStream limits the time of each Send. Only one goroutine at a time sends.
type timedStream struct {
	grpc.ServerStream
	timeout time.Duration
	timer   *time.Timer
	stalled chan struct{} // buffered; receives a value when a Send takes too long
	last    int           // bytes of the last message, which may not be with the client yet
}

func (s *timedStream) SendMsg(m any) error {
	s.timer.Reset(s.timeout + time.Duration(s.last)*time.Second/sendRate)
	err := s.ServerStream.SendMsg(m)
	s.timer.Stop()
	if msg, ok := m.(proto.Message); ok {
		s.last = proto.Size(msg)
	}
	return err
}
