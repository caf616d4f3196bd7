package inproc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// clientStream implements grpc.ClientStream. As with gRPC, one goroutine may send and another receive.
type clientStream struct {
	*call
	ctx     context.Context
	cancel  context.CancelFunc
	desc    *grpc.StreamDesc
	options callOptions
	tellEnd func(error)

	sendClosed bool  // the sender's
	result     error // the receiver's: what RecvMsg has ended with

	endOnce     sync.Once
	keepRelease func() bool // cancels release; nil if the end is not observed
}

func (s *clientStream) Context() context.Context { return s.ctx }

func (s *clientStream) Header() (metadata.MD, error) {
	select {
	case <-s.headerSent:
	case <-s.ctx.Done():
		if !s.isDone() {
			return nil, ended(s.ctx)
		}
	}
	s.options.setHeader(s.header)
	return s.header, nil
}

// Trailer is complete once RecvMsg has returned an error, io.EOF included.
func (s *clientStream) Trailer() metadata.MD {
	if !s.isDone() {
		return nil
	}
	return s.trailer
}

func (s *clientStream) CloseSend() error {
	if !s.sendClosed {
		s.sendClosed = true
		close(s.requests)
	}
	return nil
}

// SendMsg of a method with one request returns nil also where the call has ended, and io.EOF else: RecvMsg says why.
func (s *clientStream) SendMsg(m any) error {
	err := s.send(m)
	if errors.Is(err, io.EOF) && !s.desc.ClientStreams {
		return nil
	}
	return err
}

func (s *clientStream) send(m any) error {
	if s.sendClosed {
		return status.Error(codes.Internal, "inproc: SendMsg after CloseSend")
	}
	if s.ctx.Err() != nil || s.isDone() {
		return io.EOF
	}
	msg, err := pack(m, s.options.shares && s.shares.Load())
	if err != nil {
		return err
	}
	select {
	case s.requests <- msg:
	case <-s.done:
		return io.EOF
	case <-s.ctx.Done():
		return io.EOF
	}
	if !s.desc.ClientStreams {
		return s.CloseSend()
	}
	return nil
}

func (s *clientStream) RecvMsg(m any) error {
	if s.result != nil {
		return s.result
	}
	err := s.receive(m)
	if err == nil && !s.desc.ServerStreams {
		err = s.expectEnd()
		s.end(errOr(err, io.EOF))
		return err
	}
	if err != nil {
		s.end(err)
	}
	return err
}

// receive waits for one message or the end of the call.
func (s *clientStream) receive(m any) error {
	if s.ctx.Err() != nil {
		return ended(s.ctx)
	}
	select {
	case r := <-s.responses:
		return r.moveTo(m, &s.method.responses)
	case <-s.ctx.Done():
		return ended(s.ctx)
	case <-s.done:
	}
	select { // messages sent before the end come before it
	case r := <-s.responses:
		return r.moveTo(m, &s.method.responses)
	default:
	}
	if s.err != nil {
		return s.err
	}
	if !s.desc.ServerStreams {
		return status.Error(codes.Internal, "inproc: the handler returned neither a message nor an error")
	}
	return io.EOF
}

// expectEnd waits, after the one response of a method that has one, for the status.
func (s *clientStream) expectEnd() error {
	select {
	case <-s.responses:
		return status.Error(codes.Internal, "inproc: the handler sent more than the one message it has to")
	case <-s.ctx.Done():
		return ended(s.ctx)
	case <-s.done:
	}
	return s.err
}

// end keeps what the call ended with, and frees what it held.
func (s *clientStream) end(err error) {
	s.result = err
	if s.isDone() {
		s.options.setHeader(s.header)
		s.options.setTrailer(s.trailer)
	}
	if s.keepRelease != nil {
		s.keepRelease()
		s.finishOnce(err)
	}
	s.cancel()
}

// release runs when the client's context is done.
func (s *clientStream) release() { s.finishOnce(ended(s.ctx)) }

func (s *clientStream) finishOnce(err error) {
	s.endOnce.Do(func() {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		s.tellEnd(err)
		s.options.finish(err)
	})
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
