package call

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// How a call is tried again (D11).
const (
	maxTries   = 3
	firstPause = time.Second
	longPause  = 10 * time.Second
)

// retrying makes a call up to three times, with a growing pause before each further try: where what went wrong passes by itself, and
// where trying again cannot do anything twice, because the tool did not run or may run twice. All tries together take no longer than
// the call may. What fails for ever is told at once, and so is what was not tried at all because it failed a moment ago.
func (m *making) retrying(ctx context.Context) error {
	unknown := false
	for n := 1; ; n++ {
		err := m.try(ctx)
		if err == nil {
			return nil
		}
		if e := errs.From(err); unknown && e.Metadata[errs.OutcomeKey] == errs.OutcomeNotExecuted {
			err = e.With(errs.OutcomeKey, errs.OutcomeUnknown) // an earlier try may have run
		}
		if n == maxTries || remembered(err) || !passing(err) || !m.f.harmless(err) {
			return err
		}
		wait := pause(n, err)
		if time.Since(m.began)+wait >= m.limit || !sleep(ctx, wait) || m.r.inTime(m.deps.Now()) != nil {
			return err
		}
		if !m.same(&m.r) {
			return err // the server is another one by now, or nobody's any more
		}
		m.f.retries++
		unknown = unknown || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted
		m.deps.Log.InfoContext(ctx, "a tool call is tried again", "mcp_id", m.r.MCPID, "tool", m.r.Tool, "call_id", m.r.CallID, "try", n+1, "error", err)
	}
}

// passing says whether an error may be over in a moment.
func passing(err error) bool {
	var e *mcp.Error
	return errors.As(err, &e) && e.Transient
}

// remembered says whether a connection's earlier failure was told, and no connection tried.
func remembered(err error) bool {
	var e *mcp.Error
	return errors.As(err, &e) && e.Remembered
}

// harmless says whether a call that failed so can be made again.
func (f *facts) harmless(err error) bool {
	if f.asked.Load() || f.tasked.Load() || f.cost.any() {
		return false // a person would be asked again, a task begun beside the first, or a model paid for twice
	}
	if e := (*mcp.Error)(nil); errors.As(err, &e) && e.Begun {
		return false // what could be made again was
	}
	outcome := errs.From(err).Metadata[errs.OutcomeKey]
	return outcome == errs.OutcomeNotExecuted || f.repeatable && outcome == errs.OutcomeUnknown
}

// same says whether a call's server is still registered as it was when the call came.
func (c *Caller) same(r *Request) bool {
	if c.deps.Lookup == nil {
		return true
	}
	now, err := c.deps.Lookup(r.User, r.MCPID)
	return err == nil && now.UID == r.Server.UID && !now.Disabled && now.ConfigRevision() == r.Server.ConfigRevision()
}

// repeatable is what may be done twice.
func repeatable(p registry.Policy) bool {
	return p.Effect == commonv1.Effect_EFFECT_READ || p.Idempotent
}

// pause is how long to wait after the nth try: what the server asked for, or twice as long each time; never more than ten seconds, and
// a little more, so that those who failed together do not come back together, nor before the pool forgets that it just failed.
func pause(n int, err error) time.Duration {
	d := firstPause << (n - 1)
	var e *mcp.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		d = e.RetryAfter
	}
	d = min(d, longPause)
	return d + time.Duration(rand.Float64()*0.2*float64(d)) //nolint:gosec // nobody gains by guessing it
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
