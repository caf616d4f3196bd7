package api

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

// errBetweenCalls ends a stream of calls on which none runs: one that is on its way was not begun.
var errBetweenCalls = errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
	"the MCP pool is stopping; call again, another one may be there").With(errs.OutcomeKey, errs.OutcomeNotExecuted)

// CallTools implements McpPoolService.
func (s *Server) CallTools(stream grpc.BidiStreamingServer[mcppoolv1.CallToolsRequest, mcppoolv1.CallToolsResponse]) error {
	ctx := stream.Context()
	inproc.Share(ctx) // what is received is only read, and a result belongs to all who ask for it
	next, failed := make(chan *mcppoolv1.CallToolRequest), make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case next <- req.GetCall():
			case <-ctx.Done():
				return
			}
		}
	}()
	send := func(m *mcppoolv1.CallToolResponse) error {
		return stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Call{Call: m}})
	}
	for {
		select {
		case req := <-next:
			err := s.callTool(ctx, req, send)
			if err == nil {
				continue
			}
			end := errs.From(err).GRPCStatus().Proto()
			if err := stream.Send(&mcppoolv1.CallToolsResponse{Event: &mcppoolv1.CallToolsResponse_Error{Error: end}}); err != nil {
				return err
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return errs.From(err).With(errs.OutcomeKey, errs.OutcomeNotExecuted) // what was not taken
		case <-serve.Stopping(ctx):
			return errBetweenCalls
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
