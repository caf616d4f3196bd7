package conn

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/errs"
)

func isolated(i registry.Isolation) *registry.Server {
	s := server.Clone()
	s.Isolation = i
	return s
}

// A23: under TASK two tasks of one user share nothing, and the end of one closes its own connection alone, once its calls have ended.
func TestA23TasksHaveConnectionsOfTheirOwn(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, _ *fakes) {
		s := isolated(registry.PerTask)
		one, two := acquire(t, p, Use{Server: s, User: "ann", Session: "task-1"}), acquire(t, p, Use{Server: s, User: "ann", Session: "task-2"})
		bobs := acquire(t, p, Use{Server: s, User: "bob", Session: "task-1"})
		alone := acquire(t, p, Use{Server: s, User: "ann"})
		again := acquire(t, p, Use{Server: s, User: "ann", Session: "task-1"})
		if again.Client() != one.Client() {
			t.Error("a task has two connections to one server")
		}
		seen := map[any]bool{}
		for _, l := range []*Lease{one, two, bobs, alone} {
			if seen[l.Client()] {
				t.Error("a connection is shared")
			}
			seen[l.Client()] = true
		}
		if st := p.Status(s, "ann"); st.State != Ready {
			t.Errorf("status = %+v", st)
		}
		again.Release()
		two.Release()
		bobs.Release()
		alone.Release()
		if n := p.ReleaseSession("ann", "task-1"); n != 1 {
			t.Errorf("released %d", n)
		}
		synctest.Wait()
		if fakeOf(one).isClosed() {
			t.Fatal("closed under a running call")
		}
		one.Release()
		synctest.Wait()
		for name, c := range map[string]struct {
			l      *Lease
			closed bool
		}{"the task's": {one, true}, "another task's": {two, false}, "another user's": {bobs, false}, "no task's": {alone, false}} {
			if fakeOf(c.l).isClosed() != c.closed {
				t.Errorf("%s connection: closed %v", name, !c.closed)
			}
		}
	})
}

// A task that its executor never releases does not keep its connection for ever.
func TestForgottenTaskEnds(t *testing.T) {
	inPool(t, Config{IdleTimeout: time.Minute, SessionTimeout: 10 * time.Minute}, func(t *testing.T, p *Pool, f *fakes) {
		acquire(t, p, Use{Server: isolated(registry.PerTask), User: "ann", Session: "task-1"}).Release()
		<-time.After(9 * time.Minute)
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Fatal("closed while the task was held")
		}
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if !f.made[0].isClosed() {
			t.Error("not closed")
		}
	})
}

func TestSharedByAllUsers(t *testing.T) {
	inPool(t, Config{MaxPerUser: 1}, func(t *testing.T, p *Pool, _ *fakes) {
		s := isolated(registry.Shared)
		a, b := acquire(t, p, Use{Server: s, User: "ann", Session: "task-1"}), acquire(t, p, Use{Server: s, User: "bob", Session: "task-1"})
		own := acquire(t, p, Use{User: "ann"}) // a shared connection belongs to no user, and counts for none
		if a.Client() != b.Client() || own.Client() == a.Client() {
			t.Error("not one connection for all")
		}
		a.Release()
		b.Release()
		p.ReleaseSession("ann", "task-1")
		p.RetireUser(s.UID, "ann")
		<-time.After(10 * time.Minute)
		synctest.Wait()
		if fakeOf(b).isClosed() {
			t.Error("one user's release or retirement closed the shared connection")
		}
		own.Release()
	})
}

// A failed connect counts for all tasks of a user, and is remembered once.
func TestTasksShareFailures(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		f.set(errs.New(14, 0, "no such program"), 0)
		for _, task := range []string{"1", "2", "3"} {
			if _, err := p.Acquire(t.Context(), Use{Server: isolated(registry.PerTask), User: "ann", Session: task}); err == nil {
				t.Error("connected")
			}
		}
		if f.count() != 1 || len(p.failed) != 1 {
			t.Errorf("%d connects, %d failures remembered", f.count(), len(p.failed))
		}
	})
}

func TestServersLimit(t *testing.T) {
	inPool(t, Config{}, func(t *testing.T, p *Pool, f *fakes) {
		s := server.Clone()
		s.MaxConnections = 2
		a := acquire(t, p, Use{Server: s, User: "ann"})
		held := acquire(t, p, Use{Server: s, User: "bob", Session: "task-1"})
		held.Release()
		_, err := p.Acquire(t.Context(), Use{Server: s, User: "cat"})
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED || !strings.Contains(err.Error(), "MCP server one has 2") ||
			errs.From(err).RetryAfter == 0 || errs.From(err).Metadata[errs.OutcomeKey] != errs.OutcomeNotExecuted {
			t.Errorf("error = %v", err)
		}
		acquire(t, p, Use{Server: &registry.Server{UID: "2", ID: "two"}, User: "cat"}).Release() // another server's limit is its own
		a.Release()
		c := acquire(t, p, Use{Server: s, User: "cat"})
		synctest.Wait()
		if !f.made[0].isClosed() || fakeOf(held).isClosed() {
			t.Error("want the idle connection closed, and the held one open")
		}
		c.Release()
	})
}

// A user over their own limit does not cost others their idle connections.
func TestOwnLimitComesFirst(t *testing.T) {
	inPool(t, Config{MaxPerUser: 1, MaxConnections: 2}, func(t *testing.T, p *Pool, f *fakes) {
		acquire(t, p, Use{User: "bob"}).Release()
		a := acquire(t, p, Use{User: "ann"})
		if _, err := p.Acquire(t.Context(), Use{Server: &registry.Server{UID: "2", ID: "two"}, User: "ann"}); err == nil || !strings.Contains(err.Error(), "you have 1") {
			t.Errorf("error = %v", err)
		}
		synctest.Wait()
		if f.made[0].isClosed() {
			t.Error("another user's connection was closed for it")
		}
		a.Release()
	})
}
