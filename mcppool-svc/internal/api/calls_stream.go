package api

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
	"pawl.dev/services/stack"
)

// errBetweenCalls ends a stream on which no call runs. A call that arrives later is not executed.
var errBetweenCalls = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
	"the MCP pool is stopping; call again, another replica may answer").With(errs.OutcomeKey, errs.OutcomeNotExecuted)

// CallTools implements McpPoolService. The handler's goroutine only waits, so that it can return when the
// server stops: its return ends a pending Recv.
func (s *Server) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	inproc.Share(stream.Context()) // nothing changes a request; all followers share a result
	c := &callStream{server: s, stream: stream, ended: make(chan error, 1)}
	go c.serve()
	select {
	case err := <-c.ended:
		return rethrow(err)
	case <-serve.Stopping(stream.Context()):
	}
	c.running.Lock() // wait for the running call
	defer c.running.Unlock()
	select {
	case err := <-c.ended:
		return rethrow(err)
	default:
		return errBetweenCalls
	}
}

// callStream is a stream of calls, one after another.
type callStream struct {
	server  *Server
	stream  grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
	ended   chan error // buffered; receives the error of serve
	running sync.Mutex // held while a call runs
}

// panicked carries a panic to the handler's goroutine, where an interceptor recovers and logs it.
type panicked struct {
	cause any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("%v\n\n%s", p.cause, p.stack) }

func rethrow(err error) error {
	if p := (*panicked)(nil); errors.As(err, &p) {
		panic(p)
	}
	return err
}

// serve receives calls and runs them one by one. It sends the result or the error of each.
func (c *callStream) serve() {
	stack.Reserve()
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = &panicked{p, debug.Stack()}
		}
		c.ended <- err
	}()
	for err == nil {
		var req *mcppoolv1.CallToolsRequest
		if req, err = c.stream.Recv(); errors.Is(err, io.EOF) {
			err = nil
			return
		} else if err != nil {
			err = errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted) // no call was received
			return
		}
		c.release(req.GetEndedSessionIds())
		err = c.call(req.GetCall())
	}
}

// release releases the sessions that ended since the last call.
func (c *callStream) release(sessions []string) {
	if len(sessions) == 0 {
		return
	}
	p, err := identity.FromContext(c.stream.Context())
	if err != nil {
		return // callTool returns this error
	}
	for _, session := range sessions {
		c.server.Pool.ReleaseSession(p.Sub, session)
	}
}

// call runs a call. The error that it returns ends the stream; the call's own error is sent.
func (c *callStream) call(req *mcppoolv1.CallToolRequest) error {
	c.running.Lock()
	defer c.running.Unlock()
	select {
	case <-serve.Stopping(c.stream.Context()):
		return errBetweenCalls
	default:
	}
	err := c.server.callTool(c.stream.Context(), req, c.send)
	if err == nil {
		return nil
	}
	return c.stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: identity.ErrorFor(c.stream.Context(), err).GRPCStatus().Proto()}})
}

func (c *callStream) send(m *mcppoolv1.CallToolResponse) error {
	return c.stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: m}})
}
