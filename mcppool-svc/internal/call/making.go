package call

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/ledger"
	"pawl.dev/services/errs"
)

// making is a call that is made here, from its beginning to its end.
type making struct {
	*Caller
	r      Request
	f      facts
	call   *ledger.Call
	cancel context.CancelCauseFunc // ends it

	send    Send // to its first follower
	telling sync.WaitGroup

	began  time.Time             // when that was
	limit  time.Duration         // of all tries together
	first  try                   // most need no other
	result *mcppoolv1.CallResult // of the last try that came to one
}

// lead makes a call and tells its first follower, whose ctx is, of it. It stays until the call's end, whether or not that one does: a
// call takes a goroutine of its own only when there is something to tell on the way.
func (m *making) lead(ctx, running context.Context) error {
	box := m.call.Lead(m.tell)
	m.run(running)
	m.call.Leave(box)
	m.telling.Wait()
	return m.sendEnd(ctx, m.call, m.send)
}

// tell begins to tell the first follower.
func (m *making) tell(box *ledger.Mailbox) {
	m.telling.Go(func() { tell(nil, m.call, box, m.send) })
}

// run makes a call.
func (m *making) run(ctx context.Context) {
	m.began = time.Now()
	result, err := m.guarded(ctx)
	took := time.Since(m.began)
	end := ledger.End{Result: result, Err: err}
	if err == nil {
		result.CallId, result.ModelUsage = m.r.CallID, m.f.cost.usage()
		if result.Duration == nil { // it was kept
			result.Duration = &durationpb.Duration{}
		}
		result.Duration.Seconds, result.Duration.Nanos = int64(took/time.Second), int32(took%time.Second)
	}
	m.record(ctx, &m.r, &m.f, took, end)
	m.ledger.End(m.call, end)
}

// guarded makes of everything that can go wrong an error with an outcome, a panic included: it happens where no handler's
// recovery reaches.
func (m *making) guarded(ctx context.Context) (result *mcppoolv1.CallResult, failed *errs.Error) {
	defer func() {
		if p := recover(); p != nil {
			m.deps.Log.ErrorContext(ctx, "a tool call panicked", "mcp_id", m.r.MCPID, "tool", m.r.Tool, "call_id", m.r.CallID,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, failed = nil, errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
				"the pool failed inside (%v); this is a bug, the log has its place", p).With(errs.OutcomeKey, errs.OutcomeUnknown)
		}
	}()
	err := m.attempt(ctx)
	if err == nil {
		return m.result, nil
	}
	failed = errs.From(err)
	if outcome := failed.Metadata[errs.OutcomeKey]; outcome == "" || m.r.Task != "" && outcome != errs.OutcomeKnown {
		failed = failed.With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	return nil, failed.With(ClassKey, string(classOf(failed)))
}
