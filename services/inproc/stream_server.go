package inproc

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

var errHeaderSent = errors.New("inproc: the header was sent already")

// serverStream implements grpc.ServerStream.
type serverStream struct {
	*call
	ctx context.Context
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
	r, err := pack(m, s.shares.Load())
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
		return msg.moveTo(m, &s.method.requests)
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
