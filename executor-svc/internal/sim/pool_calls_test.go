package sim

import (
	"context"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

// callsStream is a stream of calls as the process has it. Each call has a connection of its own here, which ends the stream where
// it breaks.
type callsStream struct {
	grpc.ClientStream
	ctx  context.Context
	c    *poolClient
	opts []grpc.CallOption
	pool *pool // that serves the stream; nil before the first call
	now  *conn // of the running call; nil between two calls
	err  error // with which the stream ended
}

func (c *poolClient) CallTools(ctx context.Context, opts ...grpc.CallOption) (grpc.BidiStreamingClient[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse], error) {
	return &callsStream{ctx: ctx, c: c, opts: opts}, nil
}

func (s *callsStream) Context() context.Context { return s.ctx }

// Send sends a call, or returns io.EOF if it was not sent.
func (s *callsStream) Send(m *mcppoolv1.CallToolsRequest) error {
	req := proto.CloneOf(m.GetCall())
	if s.c.w.plant.request != nil {
		s.c.w.plant.request(req)
	}
	short := s.c.w.book.shortID(req.GetCallId())
	s.c.w.book.begins(s.c.p, req.GetCallId(), "is sent")
	p, _, err := s.c.reach(s.ctx, "sends call "+short)
	if err == nil && s.pool != nil && p != s.pool {
		err = cut() // the process at the other end died
	}
	if err != nil {
		s.err = err
		return io.EOF
	}
	s.pool = p
	s.c.w.book.sends(s.c.p, req.GetCallId(), req.GetSessionId(), req.GetEpoch())
	s.now = s.c.connect(s.ctx, p, req.GetCallId(), req.GetEpoch(), s.opts)
	k := s.now
	s.c.w.goes(func() { p.serveCall(k, req, short) })
	return nil
}

func (s *callsStream) Recv() (*mcppoolv1.CallToolsResponse, error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case s.now == nil:
		return nil, io.EOF
	}
	var m message
	if m, s.err = s.now.recv(s.c.w); s.err != nil {
		return nil, s.err
	}
	call := &mcppoolv1.CallToolResponse{}
	switch {
	case m.err != nil:
		s.now = nil
		return &mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: errs.From(m.err).GRPCStatus().Proto()}}, nil //nolint:nilerr // the call ended so, not the stream
	case m.progress != nil:
		call.Event = &mcppoolv1.CallToolResponse_Progress{Progress: m.progress}
	case m.asked != nil:
		call.Event = &mcppoolv1.CallToolResponse_InputRequired{InputRequired: m.asked}
	case m.task != nil:
		call.Event = &mcppoolv1.CallToolResponse_Task{Task: m.task}
	default:
		s.now = nil
		call.Event = &mcppoolv1.CallToolResponse_Result{Result: m.res}
	}
	return &mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: call}}, nil
}

func (s *callsStream) CloseSend() error { return nil }
