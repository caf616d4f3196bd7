package conn

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// reasonOf acquires and releases a lease. It returns Acquire's error and its reason: "failed" without one, "" without an error.
func reasonOf(t *testing.T, p *Pool, user string) (string, error) {
	t.Helper()
	l, err := p.Acquire(t.Context(), Use{Server: server, User: user})
	if err == nil {
		l.Release()
		return "", nil
	}
	var e *errs.Error
	if errors.As(err, &e) {
		return errs.ReasonName(e.Reason), err
	}
	return "failed", err
}

// openCircuit lets three connects fail.
func openCircuit(t *testing.T, p *Pool, f *fakes) {
	t.Helper()
	f.set(&mcp.Error{Message: "no such program"}, 0)
	for range 3 {
		if got, err := reasonOf(t, p, "ann"); got != "failed" {
			t.Fatalf("too early: %v", err)
		}
		<-time.After(retryAfter)
	}
}

func TestBreakerLeavesAFailingServerAlone(t *testing.T) {
	inPool(t, Config{BreakAfter: 3, BreakFor: 10 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
		openCircuit(t, p, f)
		got, err := reasonOf(t, p, "ann")
		e := errs.From(err)
		if got != "CIRCUIT_OPEN" || e.Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted || e.RetryAfter != 9*time.Second {
			t.Errorf("error = %v, %v, retry after %v", err, e.Metadata, e.RetryAfter)
		}
		var cause *mcp.Error
		if !errors.As(err, &cause) || cause.Message != "no such program" {
			t.Errorf("the cause is lost: %v", err)
		}
		if n := f.count(); n != 3 {
			t.Errorf("%d connects, want 3", n)
		}
		// Failures count by user, since credentials differ.
		if got, err := reasonOf(t, p, "bob"); got != "failed" {
			t.Errorf("another user: %v", err)
		}
		// The probe fails: the circuit opens again after this one connect.
		<-time.After(9 * time.Second)
		before := f.count()
		first, _ := reasonOf(t, p, "ann")
		second, _ := reasonOf(t, p, "ann")
		if first != "failed" || second != "CIRCUIT_OPEN" || f.count() != before+1 {
			t.Errorf("the probe: %s, then %s, %d connects", first, second, f.count()-before)
		}
	})
}

func TestBreakerClosesAfterOneProbe(t *testing.T) {
	inPool(t, Config{BreakAfter: 3, BreakFor: 10 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
		openCircuit(t, p, f)
		<-time.After(10 * time.Second)
		f.set(nil, time.Second)
		before := f.count()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got, err := reasonOf(t, p, "ann"); got != "" {
					t.Errorf("a call that waits for the probe: %v", err)
				}
			})
		}
		synctest.Wait()
		wg.Wait()
		if n := f.count() - before; n != 1 {
			t.Errorf("%d probes at once", n)
		}
		// A success starts the count again.
		p.Retire(server.UID, "")
		f.set(&mcp.Error{Message: "no such program"}, 0)
		if got, err := reasonOf(t, p, "ann"); got != "failed" {
			t.Errorf("the first failure after a success: %v", err)
		}
		<-time.After(retryAfter)
		if got, err := reasonOf(t, p, "ann"); got != "failed" {
			t.Errorf("the second failure after a success: %v", err)
		}
	})
}

// A missing login or an unusable registration does not count as a failure of the server.
func TestBreakerDoesNotCountMissingLogins(t *testing.T) {
	for _, kind := range []mcp.Kind{mcp.LoginRequired, mcp.Misconfigured} {
		synctest.Test(t, func(t *testing.T) {
			p := New(Config{BreakAfter: 2}, func(context.Context, *registry.Server, string) (mcp.Client, error) {
				return nil, mcp.Errorf(kind, "do something first")
			}, slog.New(slog.DiscardHandler))
			defer p.Close()
			for range 5 {
				got, err := reasonOf(t, p, "ann")
				if got != "failed" || mcp.As(err).Kind != kind {
					t.Errorf("error = %v", err)
				}
				time.Sleep(retryAfter) //nolint:forbidigo // the time of synctest
			}
		})
	}
}

// An error without a new connect is marked as remembered: for retryAfter after each failure, and while the circuit is open.
func TestRememberedFailures(t *testing.T) {
	inPool(t, Config{BreakAfter: 3, BreakFor: 10 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
		f.set(&mcp.Error{Message: "no such program"}, 0)
		remembered := func(err error) bool { return mcp.As(err).Remembered }
		_, err := reasonOf(t, p, "bob")
		if remembered(err) {
			t.Errorf("the first failure is remembered: %v", err)
		}
		if _, err := reasonOf(t, p, "bob"); !remembered(err) || err.Error() != "no such program" {
			t.Errorf("the same moment: %v", err)
		}
		openCircuit(t, p, f)
		if _, err := reasonOf(t, p, "ann"); !remembered(err) {
			t.Errorf("with an open circuit: %v", err)
		}
	})
}

// Recovered, for a connection that was made outside the pool, closes the circuit of that user alone.
func TestRecoveredClosesTheCircuit(t *testing.T) {
	inPool(t, Config{BreakAfter: 3, BreakFor: 10 * time.Second}, func(t *testing.T, p *Pool, f *fakes) {
		openCircuit(t, p, f)
		f.set(nil, 0)
		p.Recovered(server, "bob")
		if got, err := reasonOf(t, p, "ann"); got != "CIRCUIT_OPEN" {
			t.Errorf("after another user's success: %v", err)
		}
		further := keyOf(Use{Server: server, User: "ann"}).withNth(2)
		p.mu.Lock()
		p.connectFailed(further, errors.New("no further connection")) // as for a call beside others
		p.mu.Unlock()
		p.Recovered(server, "ann")
		p.mu.Lock()
		if len(p.failed) != 0 {
			t.Errorf("remembered: %v", p.failed)
		}
		p.mu.Unlock()
		if s := p.Status(server, "ann"); s.State != Idle || s.Err != nil {
			t.Errorf("status = %+v", s)
		}
		if got, err := reasonOf(t, p, "ann"); got != "" {
			t.Errorf("after a success: %v", err)
		}
	})
}
