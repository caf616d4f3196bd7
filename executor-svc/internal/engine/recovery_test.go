package engine_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
)

// sick is a task in the middle of something when its process is killed, again and again.
type sick struct {
	*rig
	id      string
	dir     string
	n       int
	commits atomic.Int32 // of this process
	well    chan struct{}
	// heal lets what was interrupted come back.
	heal func()
}

// newSick starts a task that is in the middle of a call, which a pool of its own goes on with, or of planning.
func newSick(t *testing.T, planning bool) *sick {
	s := &sick{rig: newRigOver(t, fake.Script("write"), slog.New(slog.DiscardHandler), insideTheProcess(t)), dir: t.TempDir(), well: make(chan struct{})}
	s.heal = sync.OnceFunc(func() { close(s.well) })
	t.Cleanup(s.heal)
	s.keepPool, s.pool.Detached = true, true
	if planning {
		s.planner.BeforePlan = func(ctx context.Context) error {
			select {
			case <-s.well:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	} else {
		s.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
			<-s.well
			return send(fake.TextResult("done", false))
		}
	}
	s.j.onCommit = func(_ journal.Transition, do func() error) error {
		s.commits.Add(1)
		return do()
	}
	s.start()
	n := newTask(never)
	n.Head.Limits.MaxRecoveries = 5
	s.id = s.createAs(n)
	synctest.Wait()
	return s
}

// diesAfter kills its process after a time, and starts another one.
func (s *sick) diesAfter(lived time.Duration) {
	s.t.Helper()
	<-time.After(lived)
	synctest.Wait()
	left := s.copyTo(s.dir, s.n)
	s.n++
	if err := s.stop(); err != nil {
		s.t.Fatal(err)
	}
	s.path = left
	s.commits.Store(0)
	s.start()
	synctest.Wait()
}

func (s *sick) status() executorv1.ExecutorStatus { return s.task(s.id).Checkpoint.GetStatus() }

// A task that does its hosts no harm is not ended for what kills them (DESIGN 4): its process followed a call that ran in a pool,
// or lived on with it for a while.
func TestHarmlessTaskIsTakenUpAgainAndAgain(t *testing.T) {
	for name, c := range map[string]struct {
		planning bool
		lived    time.Duration
	}{
		"in a long call":        {false, 2 * time.Second},
		"while it plans":        {true, 31 * time.Second},
		"in a call for an hour": {false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSick(t, c.planning)
				for range 12 {
					if s.diesAfter(c.lived); s.status() == failed {
						t.Fatalf("after %d crashes: %v", s.n, s.task(s.id).Checkpoint)
					}
				}
				s.heal()
				s.await(s.id, success)
				if n := len(s.pool.Called()); n != 1 {
					t.Errorf("%d calls", n)
				}
				s.events(s.id)
			})
		})
	}
}

// A task whose hosts die as soon as they take it up ends after five times: while it plans, and where the end of its call is what
// kills.
func TestHarmfulTaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		planning bool
		lived    time.Duration
	}{
		"in a call":      {false, 500 * time.Millisecond},
		"while it plans": {true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSick(t, c.planning)
				for range 6 {
					s.diesAfter(c.lived)
				}
				if e := s.task(s.id).Checkpoint.GetError(); s.status() != failed || e.GetReason() != commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS {
					t.Errorf("after %d crashes it is %s: %v", s.n, s.status(), e)
				}
				s.heal()
				s.events(s.id)
			})
		})
	}
}

// Who is killed once pays nothing for that: taking a task up is one commit, however long its call then lasts.
func TestOneCrashCostsNoFurtherCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSick(t, false)
		s.diesAfter(time.Second)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := s.commits.Load(); n != 1 {
			t.Errorf("%d commits to take the task up, want 1", n)
		}
		s.diesAfter(0)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := s.commits.Load(); n != 2 {
			t.Errorf("%d commits to take the task up again and to find it harmless, want 2", n)
		}
		s.heal()
		s.await(s.id, success)
	})
}
