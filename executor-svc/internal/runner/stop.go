package runner

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
)

// stopInterval is how often StopCall asks a pool that does not know the call yet, or that cannot be reached.
const stopInterval = 250 * time.Millisecond

// StopCall asks the pool to stop the running call of a lane. The session stops waiting for the call if it has no outcome within StopGrace.
func (s *Session) StopCall(ctx context.Context, lane uint32, reason string) {
	s.mu.Lock()
	c := s.calls[lane]
	s.mu.Unlock()
	if c == nil {
		return
	}
	c.stopping.Store(true)
	time.AfterFunc(s.r.cfg.StopGrace, c.end)
	ctx, cancel := context.WithTimeout(ctx, s.r.cfg.StopGrace)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	for {
		err := s.cancelAnywhere(ctx, c.location, &mcppoolv1.CancelCallRequest{CallId: c.id, Reason: reason})
		if err == nil || ctx.Err() != nil {
			return
		}
		if code := errs.From(err).Code; code != codes.NotFound && code != codes.Unavailable {
			s.log.WarnContext(ctx, "the MCP pool could not stop a call", "call_id", c.id, "error", err)
			return
		}
		// The pool may not have the call yet, or no longer, or it cannot be reached now.
		if !sleep(ctx, stopInterval) {
			return
		}
	}
}

// Withdraw ends a call whose questions will not be answered. If that fails, the pool gives up the questions after a while.
func (s *Session) Withdraw(ctx context.Context, w flow.Withdraw) {
	ctx, cancel := context.WithTimeout(ctx, s.r.cfg.StopGrace)
	defer cancel()
	id := flow.CallID(s.id, w.Ordinal, w.Attempt, w.Round)
	mcpID, _ := flow.ToolName(w.ToolID)
	at := location{w.PoolID, mcpID}
	err := s.cancelAnywhere(ctx, at, &mcppoolv1.CancelCallRequest{CallId: id, Reason: w.Reason})
	if err == nil || errs.From(err).Code == codes.NotFound {
		// No owner needs the outcome, so the pool may forget it.
		err = s.sendToReplica(ctx, at, func(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, o ...grpc.CallOption) error {
			_, err := pool.AckCall(ctx, &mcppoolv1.AckCallRequest{CallIds: []string{id}}, o...)
			return err
		})
	}
	if err != nil {
		s.log.WarnContext(ctx, "a call that waits for a person could not be ended", "call_id", id, "error", err)
	}
}
