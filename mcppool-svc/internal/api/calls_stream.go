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

	"pawl.dev/mcppool-svc/internal/call"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// errBetweenCalls ends a stream of calls on which none runs: one that is on its way was not begun.
var errBetweenCalls = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
	"the MCP pool is stopping; call again, another one may be there").With(errs.OutcomeKey, errs.OutcomeNotExecuted)

// CallTools implements McpPoolService. Who receives a call makes it: to hand it over to another goroutine would take as long as much
// of the rest. The handler itself waits for the end, as nothing but its return ends a Recv when the server stops.
func (s *Server) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	inproc.Share(stream.Context()) // what is received is only read, and a result belongs to all who ask for it
	l := &lane{server: s, stream: stream, ended: make(chan error, 1)}
	go l.serve()
	select {
	case err := <-l.ended:
		return l.end(err)
	case <-serve.Stopping(stream.Context()):
	}
	l.turn.Lock() // what runs comes to its end
	defer l.turn.Unlock()
	select {
	case err := <-l.ended:
		return l.end(err)
	default:
		return errBetweenCalls
	}
}

// lane is a stream of calls.
type lane struct {
	server *Server
	stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]
	ended  chan error // buffered; gets how serve ended
	turn   sync.Mutex // held while a call runs
}

// crash is a panic on its way to the handler's goroutine, where it is recovered and logged.
type crash struct {
	cause any
	stack []byte
}

func (c *crash) Error() string { return fmt.Sprintf("%v\n\n%s", c.cause, c.stack) }

// end is what the handler returns when serve has ended.
func (l *lane) end(err error) error {
	if c := (*crash)(nil); errors.As(err, &c) {
		panic(c)
	}
	return err
}

// serve makes the calls as they come.
func (l *lane) serve() {
	var err error
	send := call.Send(l.send)
	defer func() {
		if p := recover(); p != nil {
			err = &crash{p, debug.Stack()}
		}
		l.ended <- err
	}()
	for err == nil {
		var req *mcppoolv1.CallToolsRequest
		switch req, err = l.stream.Recv(); {
		case err == nil:
			l.release(req.GetEndedSessionIds())
			err = l.call(req.GetCall(), send)
		case errors.Is(err, io.EOF):
			err = nil
			return
		default:
			err = errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted) // what was not taken
		}
	}
}

// release releases the sessions that ended since the call before.
func (l *lane) release(sessions []string) {
	if len(sessions) == 0 {
		return
	}
	p, err := identity.FromContext(l.stream.Context())
	if err != nil {
		return // the call says so
	}
	for _, session := range sessions {
		l.server.pool.ReleaseSession(p.Sub, session)
	}
}

// call makes a call and says what it came to. Its error is why the stream is of no use any more.
func (l *lane) call(req *mcppoolv1.CallToolRequest, send call.Send) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	select {
	case <-serve.Stopping(l.stream.Context()):
		return errBetweenCalls
	default:
	}
	err := l.server.callTool(l.stream.Context(), req, send)
	if err == nil {
		return nil
	}
	end := errs.From(err).GRPCStatus().Proto()
	return l.stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: end}})
}

// send tells of the running call.
func (l *lane) send(m *mcppoolv1.CallToolResponse) error {
	var out struct { // in one piece
		mcppoolv1.CallToolsResponse
		event mcppoolv1.CallToolsResponse_Call
	}
	out.event.Call = m
	out.Event = &out.event
	return l.stream.Send(&out.CallToolsResponse)
}
