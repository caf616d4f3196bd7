package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/pin"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/audit"
	"pawl.dev/services/errs"
)

// Caller calls tools. It is safe for concurrent use.
type Caller struct {
	pool  *conn.Pool
	calls *inflight.Calls
	deps  Deps
}

// Deps are a Caller's dependencies, except the pool and the calls in flight.
type Deps struct {
	// Lookup returns a user's server with its current registration, for retries. Nil: registrations do not change.
	Lookup func(user, mcpID string) (*registry.Server, error)

	Now     func() time.Time // for start_by
	Log     *slog.Logger
	Audit   *audit.Log // gets a record of each call, approval, answer and model request; may be nil
	Metrics *Metrics   // may be nil
	Pins    *pin.Book  // which tools may be used
	Cache   *Cache     // results of tools that only read; may be nil
	Models  *Models    // the models for requests of servers (sampling); nil: none

	MaxResult    int           // bytes of a raw result: longer tool results are cut, longer resources and prompts are refused; 0: no limit
	InputTimeout time.Duration // how long a question stays open
}

// New returns a Caller.
func New(pool *conn.Pool, calls *inflight.Calls, deps Deps) *Caller {
	return &Caller{pool: pool, calls: calls, deps: deps}
}

// Call calls a tool, or follows the call that is already registered under the id. It passes progress, logs and questions to send as
// they arrive, and the result last. Every error of a call is an *errs.Error whose metadata says whether the tool ran; an error of send is
// returned as it is. If ctx ends, an unnamed call ends with it; a named one continues, and Attach finds it.
func (c *Caller) Call(ctx context.Context, r Request, send Send) error {
	c.calls.Ack(r.User, r.Ack)
	if err := context.Cause(ctx); err != nil {
		return refuse(codes.Canceled, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "the caller went away before the call began: %w", err)
	}
	base := context.WithoutCancel(ctx)
	if r.CallID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("making a call id: %w", err)
		}
		r.CallID, r.Unnamed, base = inflight.Unnamed(id.String()), true, ctx
	}
	running, cancel := context.WithCancelCause(base)
	call, first, err := c.calls.Begin(inflight.Start{
		User: r.User, ID: r.CallID, Hashes: r.Hashes, Session: r.Session, Epoch: r.Epoch, Cancel: cancel,
	})
	if err != nil {
		cancel(nil)
		(&execution{Caller: c, Request: r, runState: runState{decision: refused}}).record(ctx, 0, inflight.End{Err: errs.From(err)})
		return err
	}
	if !first {
		cancel(nil)
		return c.follow(ctx, call, send)
	}
	x := &execution{Caller: c, Request: r, call: call, cancel: cancel}
	return c.lead(ctx, call, send, func() { x.run(running) })
}

// execution is one call while it runs.
type execution struct {
	*Caller
	Request
	runState
	call   *inflight.Call
	cancel context.CancelCauseFunc // ends the call

	began      time.Time
	approved   string        // hash of the tool's definition with which a person approved the call
	totalLimit time.Duration // for all attempts together

	result *mcppoolv1.CallResult // of the attempt that counts; see settle
	err    error                 // of the attempt that counts
}

// run executes the call, records how it ended and tells its followers. A panic ends the call with an unknown outcome.
func (x *execution) run(ctx context.Context) {
	x.began = time.Now()
	var end inflight.End
	defer func() {
		if p := recover(); p != nil { // recovered here, because the followers need an end
			x.deps.Log.ErrorContext(ctx, "a tool call panicked", "mcp_id", x.MCPID, "tool", x.Tool, "call_id", x.CallID,
				"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			end = inflight.End{Err: errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_UNKNOWN_ERROR,
				"internal error in the pool (%v); this is a bug: please report it with the stack trace in the log", p).With(errs.OutcomeKey, errs.OutcomeUnknown)}
		}
		x.record(ctx, time.Since(x.began), end)
		x.calls.End(x.call, end)
		x.cancel(nil)
	}()
	end = x.end(x.execute(ctx))
}

// execute makes the checks that need no connection, then attempts the call until no retry is planned or possible.
func (x *execution) execute(ctx context.Context) (*mcppoolv1.CallResult, error) {
	if err := x.admit(); err != nil {
		x.decision = refused
		return nil, err
	}
	x.totalLimit = x.timeout()
	for retry := true; retry; {
		a := &attempt{execution: x, number: x.repeats + 1, limit: x.remaining()}
		result, err := a.run(ctx)
		if needed, ok := errors.AsType[*approvalNeeded](err); ok { // asked here, because the attempt has given its connection back
			if err = a.approve(ctx, needed); err == nil {
				continue
			}
		}
		x.settle(result, err)
		var wait time.Duration
		wait, retry = x.planRetry(ctx)
		retry = retry && sleep(ctx, wait) && x.beginRetry(ctx)
	}
	return x.result, x.err
}

// attempt is one attempt of an execution. While it runs, it handles the server's events and questions.
type attempt struct {
	*execution
	number int           // from 1
	limit  time.Duration // how long the tool may take in this attempt
	timer  timer
}

// run makes the attempt over one connection: resolve, validate and authorize, look in the cache, execute, validate the result, cache it.
func (a *attempt) run(ctx context.Context) (result *mcppoolv1.CallResult, err error) {
	lease, err := a.pool.Acquire(ctx, a.use())
	if a.connected = err == nil; err != nil {
		return nil, Explain(Preparing, err)
	}
	defer func() { lease.Close(err) }()
	tools, tool, err := lease.Tools().Find(ctx, a.Tool)
	if err != nil {
		return nil, Explain(Preparing, err)
	}
	policy, err := a.authorize(tools, tool)
	if err != nil {
		a.decision = refused
		return nil, err
	}
	if a.AskAbove != 0 && policy.RiskFloor > a.AskAbove && a.approved != tool.Hash {
		return nil, &approvalNeeded{tool, policy}
	}
	a.decision = allowed
	slot := a.cacheSlot(lease, tool, policy)
	if cached := slot.get(); cached != nil {
		a.cached = true
		return cached, nil
	}
	if !a.reads(policy) { // cached results may be out of date from now on
		lease.Wrote()
		defer lease.Wrote()
	}
	a.timer.start(a.cancel, a.limit)
	defer a.timer.stop()
	raw, err := lease.Client().CallTool(ctx, a.toolCall(ctx, tool))
	if err != nil {
		return nil, Explain(Executing, err)
	}
	if result, err = a.parseResult(raw, tool); err != nil {
		return nil, err
	}
	slot.put(result)
	return result, nil
}
