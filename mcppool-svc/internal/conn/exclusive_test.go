package conn

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

// inExclusive is inPool with servers that ask without naming the call, so that each call gets a connection alone.
func inExclusive(t *testing.T, cfg Config, test func(t *testing.T, p *Pool, f *fakes)) {
	inPool(t, cfg, func(t *testing.T, p *Pool, f *fakes) {
		p.cfg.Exclusive = func(*registry.Server) bool { return true }
		test(t, p, f)
	})
}

// callUse is the Use of a call of ann's, which waits for a connection for a minute at most.
func callUse(session string) Use {
	return Use{User: "ann", Session: session, Call: true, Patience: time.Minute}
}

func wantNothingLeft(t *testing.T, p *Pool) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queues)+len(p.entries) != 0 {
		t.Errorf("left over: %v, %v", p.queues, p.entries)
	}
}

func atMost(n int) *registry.Server {
	s := server.Clone()
	s.MaxConnections = n
	return s
}

// Calls that run at once have a connection each; calls one after the other share one. Uses that are no calls share the first.
func TestCallsAlone(t *testing.T) {
	inExclusive(t, Config{IdleTimeout: time.Minute}, func(t *testing.T, p *Pool, f *fakes) {
		for range 3 {
			acquire(t, p, callUse("")).Release()
		}
		if f.count() != 1 {
			t.Fatalf("calls one after the other made %d connections", f.count())
		}
		a, b, c := acquire(t, p, callUse("")), acquire(t, p, callUse("")), acquire(t, p, callUse(""))
		list := acquire(t, p, Use{User: "ann"})
		if f.count() != 3 || a.Client() == b.Client() || b.Client() == c.Client() || a.Client() == c.Client() {
			t.Errorf("three calls have %d connections", f.count())
		}
		if list.Client() != f.made[0] {
			t.Error("a use that is no call does not share the first connection")
		}
		bobs := acquire(t, p, Use{User: "bob", Call: true})
		if f.count() != 4 {
			t.Error("two users share a connection")
		}
		b.Release()
		if d := acquire(t, p, callUse("")); d.Client() != f.made[1] {
			t.Error("a free connection is not used again")
		} else {
			d.Release()
		}
		for _, l := range []*Lease{a, c, list, bobs} {
			l.Release()
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if l := p.Load(); l.Used != 0 {
			t.Errorf("after the idle time: %+v", l)
		}
		wantNothingLeft(t, p)
	})
}

// Calls share a connection if the server does not ask, or if users share the connection.
func TestNotExclusive(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		asks := map[string]bool{"asks": true}
		p.cfg.Exclusive = func(s *registry.Server) bool { return asks[s.UID] }
		shared := isolated(registry.Shared)
		shared.UID = "asks"
		for _, s := range []*registry.Server{server, shared} {
			before := f.count()
			a, b := acquire(t, p, Use{Server: s, User: "ann", Call: true}), acquire(t, p, Use{Server: s, User: "ann", Call: true})
			if f.count() != before+1 {
				t.Errorf("%s (%v) has %d connections", s.UID, s.Isolation, f.count()-before)
			}
			a.Release()
			b.Release()
		}
		// The server turns out to ask while two calls share a connection: no further call may join them.
		a, b := acquire(t, p, Use{User: "ann", Call: true}), acquire(t, p, Use{User: "ann", Call: true})
		asks[server.UID] = true
		c := acquire(t, p, Use{User: "ann", Call: true})
		if c.Client() == a.Client() {
			t.Error("a third call runs beside two")
		}
		a.Release()
		d := acquire(t, p, Use{User: "ann", Call: true})
		if d.Client() == b.Client() {
			t.Error("a call runs beside one that began before")
		}
		for _, l := range []*Lease{b, c, d} {
			l.Release()
		}
	})
}

// A task's calls stay on one connection, since the server may keep state for it.
func TestTaskStaysWithItsConnection(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		acquire(t, p, Use{User: "ann", Session: "two"}).Release() // not a call, as a listing of tools
		<-time.After(time.Second)
		a, b := acquire(t, p, callUse("one")), acquire(t, p, callUse("two"))
		a.Release()
		b.Release()
		<-time.After(time.Second)
		b = acquire(t, p, callUse("two"))
		if b.Client() != f.made[1] {
			t.Error("the second task's next call goes over the first task's connection")
		}
		b.Release()
		if n := p.ReleaseSession("ann", "two"); n != 2 {
			t.Errorf("released %d", n)
		}
	})
}

// Over the limit calls wait, in order, are told why, and go on when a connection comes free.
func TestCallsTakeTurns(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		use := callUse("")
		use.Server = atMost(2)
		a, b := acquire(t, p, use), acquire(t, p, use)
		var told atomic.Int32
		use.Waiting = func(why error) {
			told.Add(1)
			if !strings.Contains(why.Error(), "only one of your calls at a time") {
				t.Errorf("told %v", why)
			}
		}
		got := make(chan *Lease)
		var order []string
		for _, name := range []string{"third", "fourth"} {
			go func() {
				l, err := p.Acquire(t.Context(), use)
				if err != nil {
					t.Error(err)
				}
				order = append(order, name)
				got <- l
			}()
			synctest.Wait()
		}
		if l := p.Load(); l.Waiting != 2 || l.Refused != 0 || told.Load() != 2 {
			t.Errorf("load = %+v, %d were told", l, told.Load())
		}
		b.Release()
		third := <-got
		a.Release()
		fourth := <-got
		if f.count() != 2 || order[0] != "third" || third.Client() != f.made[1] || fourth.Client() != f.made[0] {
			t.Errorf("%d connections, order %v", f.count(), order)
		}
		third.Release()
		fourth.Release()
		p.Retire(use.Server.UID, "")
		wantNothingLeft(t, p)
	})
}

// No caller waits for ever, or behind too many others; one that gives up leaves the queue.
func TestTurnsAreBounded(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, _ *fakes) {
		use := callUse("")
		use.Server = atMost(1)
		a := acquire(t, p, use)
		errc := make(chan error, maxWaiters)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			_, err := p.Acquire(ctx, use)
			errc <- err
		}()
		synctest.Wait()
		for range maxWaiters - 1 {
			go func() {
				_, err := p.Acquire(t.Context(), use)
				errc <- err
			}()
		}
		synctest.Wait()
		_, err := p.Acquire(t.Context(), use)
		wantBusy(t, err)
		cancel(errors.New("enough"))
		if err := <-errc; mcp.As(err).Kind != mcp.Interrupted {
			t.Errorf("the caller that gave up gets %v", err)
		}
		start := time.Now()
		for range maxWaiters - 1 {
			wantBusy(t, <-errc)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the calls waited %v", took)
		}
		if l := p.Load(); l.Refused != maxWaiters || l.Waiting != 0 {
			t.Errorf("load = %+v", l)
		}
		a.Release()
	})
}

func wantBusy(t *testing.T, err error) {
	t.Helper()
	if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted ||
		!strings.Contains(err.Error(), "answer the open questions") {
		t.Errorf("error = %v", err)
	}
}

// A connection that dies ends no other, and the next waiting call takes its place. The end of the pool ends the waiting.
func TestTurnsAndDeaths(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		use := callUse("")
		use.Server = atMost(2)
		a, b := acquire(t, p, use), acquire(t, p, use)
		got := make(chan *Lease)
		go func() { got <- acquire(t, p, use) }()
		synctest.Wait()
		f.made[1].fail(errors.New("died"))
		c := <-got
		if c.Client() != f.made[2] || fakeOf(a).isClosed() {
			t.Error("the waiting call did not get a new connection, or another call's was closed")
		}
		b.Release()
		last := make(chan error)
		go func() {
			_, err := p.Acquire(t.Context(), use)
			last <- err
		}()
		synctest.Wait()
		go p.Close()
		if err := <-last; errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN {
			t.Errorf("at the end: %v", err)
		}
		a.Release()
		c.Release()
	})
}

// If a server can run only once at a time, a second call waits for its one connection.
func TestOnlyOneCanRun(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		a := acquire(t, p, callUse(""))
		f.set(&mcp.Error{Kind: mcp.Unavailable, Message: "the database is locked"}, 0)
		got := make(chan *Lease)
		go func() { got <- acquire(t, p, callUse("")) }()
		synctest.Wait()
		if st := p.Status(server, "ann"); st.State != Ready {
			t.Errorf("status = %+v", st)
		}
		a.Release()
		b := <-got
		if b.Client() != f.made[0] {
			t.Error("the second call is not on the one connection")
		}
		b.Release()
	})
}

// unsettled is a connection whose Settled the test sets.
type unsettled struct {
	*fakeClient
	settled atomic.Bool
}

func (u *unsettled) Settled() bool { return u.settled.Load() }

// A question after a call was given up may still be for that call: no other call gets its connection.
func TestUnsettledConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []*unsettled
		p := New(Config{}, func(_ context.Context, s *registry.Server, _ string) (mcp.Client, error) {
			u := &unsettled{fakeClient: newFakeClient(s)}
			u.settled.Store(true)
			made = append(made, u)
			return u, nil
		}, slog.New(slog.DiscardHandler))
		p.cfg.Exclusive = func(*registry.Server) bool { return true }
		subscription := acquire(t, p, Use{User: "ann"})
		reading := acquire(t, p, Use{User: "ann"})
		a := acquire(t, p, callUse(""))
		made[0].settled.Store(false)
		a.Release()
		b := acquire(t, p, callUse(""))
		if len(made) != 2 || b.Client() != made[1] {
			t.Fatalf("%d connections", len(made))
		}
		synctest.Wait()
		if made[0].isClosed() {
			t.Error("closed during a read")
		}
		reading.Release()
		select {
		case <-subscription.Retired(): // it moves, because it does not hear of changes by calls on the other one
		default:
			t.Error("the subscription keeps the connection")
		}
		subscription.Release()
		synctest.Wait()
		if !made[0].isClosed() {
			t.Error("the connection without uses is open")
		}
		again := acquire(t, p, Use{User: "ann"})
		if again.Client() != made[1] {
			t.Error("the next subscription does not use the calls' connection")
		}
		again.Release()
		b.Release()
		synctest.Wait()
		if made[1].isClosed() {
			t.Error("the calls' connection was closed")
		}
		p.Close()
	})
}

// A write over one connection counts for reads over another.
func TestWritesCountForAll(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, _ *fakes) {
		a, b := acquire(t, p, callUse("")), acquire(t, p, callUse(""))
		one, before := a.Stamp()
		b.Wrote()
		if same, after := a.Stamp(); same != one || after != before+1 {
			t.Errorf("stamp %d/%d, was %d/%d", same, after, one, before)
		}
		a.Release()
		b.Release()
	})
}

// Retire closes all connections, each after its call.
func TestRetireExclusive(t *testing.T) {
	inExclusive(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		a, b := acquire(t, p, callUse("")), acquire(t, p, callUse(""))
		a.Release()
		p.Retire(server.UID, "")
		synctest.Wait()
		if !f.made[0].isClosed() || f.made[1].isClosed() {
			t.Error("the idle one was to be closed, and the busy one not yet")
		}
		b.Release()
		synctest.Wait()
		if !f.made[1].isClosed() {
			t.Error("the busy connection is not closed after its call")
		}
		wantNothingLeft(t, p)
	})
}
