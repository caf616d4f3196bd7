package inproc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var errHeaderSent = errors.New("inproc: the header was sent already")

// serverStream implements grpc.ServerStream.
type serverStream struct {
	*call
	ctx    context.Context
	shares bool // what the handler sends; set before it sends anything
}

// Share says of the stream that ctx is of that whatever its handler sends is never changed again, by nobody: then it is sent as it
// is. Clients of such a stream must not change what is in the messages that they receive. Of streams that come over a network it
// says nothing.
func Share(ctx context.Context) {
	if t, ok := grpc.ServerTransportStreamFromContext(ctx).(*streamTransport); ok {
		t.shares = true
	}
}

func (s *serverStream) Context() context.Context { return s.ctx }

func (s *serverStream) SetHeader(md metadata.MD) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.headerSent:
		return errHeaderSent
	default:
	}
	s.header = metadata.Join(s.header, md)
	return nil
}

func (s *serverStream) SendHeader(md metadata.MD) error {
	if err := s.SetHeader(md); err != nil {
		return err
	}
	s.sendHeader()
	return nil
}

func (s *serverStream) SetTrailer(md metadata.MD) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isDone() {
		s.trailer = metadata.Join(s.trailer, md)
	}
}

func (s *serverStream) SendMsg(m any) error {
	if s.ctx.Err() != nil {
		return ended(s.ctx)
	}
	if s.isDone() {
		return status.Error(codes.Internal, "inproc: SendMsg after the handler returned")
	}
	r := response{shared: s.shares}
	var err error
	if r.shared {
		r.msg, err = message(m)
	} else {
		r.msg, err = clone(m)
	}
	if err != nil {
		return err
	}
	s.sendHeader()
	select {
	case s.responses <- r:
		return nil
	case <-s.ctx.Done():
		return ended(s.ctx)
	}
}

func (s *serverStream) RecvMsg(m any) error {
	if s.ctx.Err() != nil {
		return ended(s.ctx)
	}
	select {
	case msg, open := <-s.requests:
		if !open {
			return io.EOF
		}
		return moveTo(m, msg)
	case <-s.ctx.Done():
		return ended(s.ctx)
	}
}

// streamTransport is what grpc.SetHeader, SendHeader and SetTrailer reach.
type streamTransport serverStream

func (t *streamTransport) Method() string                  { return t.method.name }
func (t *streamTransport) SetHeader(md metadata.MD) error  { return (*serverStream)(t).SetHeader(md) }
func (t *streamTransport) SendHeader(md metadata.MD) error { return (*serverStream)(t).SendHeader(md) }
func (t *streamTransport) SetTrailer(md metadata.MD) error {
	(*serverStream)(t).SetTrailer(md)
	return nil
}
