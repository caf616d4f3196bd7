package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// How calls are retried.
const (
	maxAttempts = 3
	firstPause  = time.Second
	maxPause    = 10 * time.Second
)

// retryReason is why an attempt is made after another one.
type retryReason int

const (
	noRetry          retryReason = iota
	connectionEnded              // before anything was sent over it
	unclearQuestion              // a question was refused because it was not clear whether it was for this call
	transientFailure             // the failure may pass by itself
)

// settle keeps the outcome of an attempt, unless an earlier attempt's outcome must stand.
func (x *execution) settle(result *mcppoolv1.CallResult, err error) {
	notExecuted := err != nil && outcomeOf(err) == errs.OutcomeNotExecuted
	if notExecuted && x.reason == unclearQuestion {
		return // the previous attempt ran the tool: its outcome counts
	}
	if notExecuted && x.mayHaveRun {
		err = errs.From(err).With(errs.OutcomeKey, errs.OutcomeUnknown)
	}
	x.mayHaveRun = x.mayHaveRun || !notExecuted
	x.result, x.err = result, err
}

// planRetry reports whether to make another attempt, and after what wait. A transient failure is retried only if the tool did not run or may
// run twice, and if the call has time left after the wait.
func (x *execution) planRetry(ctx context.Context) (wait time.Duration, retry bool) {
	last := x.reason
	e, _ := errors.AsType[*mcp.Error](x.err)
	switch {
	case x.connected && last != connectionEnded && endedUnsent(x.err):
		x.reason = connectionEnded
		return 0, true
	case x.unclear.Swap(false) && last != unclearQuestion && x.mayUseOwnConnection(ctx):
		x.reason = unclearQuestion
		return 0, true
	case e != nil && e.Transient && !e.Remembered && x.delayed < maxAttempts-1 && x.mayRepeat(x.err):
		x.reason = transientFailure
		x.delayed++
		wait = pause(x.delayed, e)
		return wait, time.Since(x.began)+wait < x.totalLimit
	}
	return 0, false
}

// beginRetry reports whether the planned retry can still be made, and counts it.
func (x *execution) beginRetry(ctx context.Context) bool {
	if x.reason == connectionEnded {
		return true
	}
	if x.reason == transientFailure && (x.checkStartBy() != nil || !x.isUnchanged()) {
		return false
	}
	x.repeats++
	x.deps.Log.InfoContext(ctx, "retrying a tool call", "mcp_id", x.MCPID, "tool", x.Tool, "call_id", x.CallID, "error", x.err)
	return true
}

// endedUnsent reports whether a connection ended before the request was sent over it, such as after a restart of the server.
func endedUnsent(err error) bool {
	e, ok := errors.AsType[*mcp.Error](err)
	return ok && e.Lost && !e.MayHaveRun && !e.Begun
}

// mayUseOwnConnection reports whether to repeat a call, over a connection of its own, because a question was refused that may have been this
// call's. It requires a known outcome, a repeatable tool, and a call that is no MCP task, continues no call, and asked no person or model.
func (x *execution) mayUseOwnConnection(ctx context.Context) bool {
	known := x.err == nil || outcomeOf(x.err) == errs.OutcomeKnown
	return known && x.repeatable && !x.asked.Load() && !x.tasked.Load() && !x.usage.any() && !x.Continues && x.Task == "" &&
		ctx.Err() == nil && x.isUnchanged()
}

// mayRepeat reports whether the call may be repeated after this error.
func (x *execution) mayRepeat(err error) bool {
	if x.asked.Load() || x.tasked.Load() || x.usage.any() {
		return false // a person would be asked again, a second task begun, or a model paid twice
	}
	if e := (*mcp.Error)(nil); errors.As(err, &e) && e.Begun {
		return false // the client has already retried the request that failed
	}
	outcome := outcomeOf(err)
	return outcome == errs.OutcomeNotExecuted || x.repeatable && outcome == errs.OutcomeUnknown
}

// isUnchanged reports whether the call's server is enabled and still has the registration with which the call began.
func (x *execution) isUnchanged() bool {
	if x.deps.Lookup == nil {
		return true
	}
	server, err := x.deps.Lookup(x.User, x.MCPID)
	return err == nil && server.UID == x.Server.UID && !server.Disabled && server.ConfigRevision() == x.Server.ConfigRevision()
}

// remaining returns how long the next attempt may take.
func (x *execution) remaining() time.Duration {
	if x.repeats == 0 {
		return x.totalLimit
	}
	return max(x.totalLimit-time.Since(x.began), time.Millisecond)
}

// continueAgain implements mcp.Call.Again. Unlike mayRepeat, it allows a retry after a person was asked: the repeated request carries the answers.
func (a *attempt) continueAgain(ctx context.Context, n int, e *mcp.Error) bool {
	if n >= maxAttempts || !e.Transient || e.MayHaveRun && !a.repeatable || a.tasked.Load() || !sleep(ctx, pause(n, e)) || !a.isUnchanged() {
		return false
	}
	a.continued++
	a.deps.Log.InfoContext(ctx, "a request that continues a tool call is repeated", "mcp_id", a.MCPID, "tool", a.Tool, "call_id", a.CallID, "attempt", n+1, "error", e)
	return true
}

// repeatable reports whether a tool may run twice.
func repeatable(p registry.Policy) bool {
	return p.Effect == commonv1.Effect_EFFECT_READ || p.Idempotent
}

func outcomeOf(err error) string { return errs.From(err).Metadata[errs.OutcomeKey] }

// pause returns the wait after the nth attempt: the server's Retry-After, or 1 s, 2 s, 4 s …, at most 10 s, and up to 20 % more as jitter.
// Jitter only lengthens the wait, because the pool refuses to connect for 1 s after a failed connect.
func pause(n int, e *mcp.Error) time.Duration {
	d := firstPause << (n - 1)
	if e != nil && e.RetryAfter > 0 {
		d = e.RetryAfter
	}
	d = min(d, maxPause)
	return d + time.Duration(rand.Float64()*0.2*float64(d)) //nolint:gosec // no secret depends on it
}

// sleep waits, and returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
