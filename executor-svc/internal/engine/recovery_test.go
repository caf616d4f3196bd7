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

// crashLoop is a task in a call or in planning whose process is killed again and again.
type crashLoop struct {
	*rig
	id      string
	dir     string
	crashes int
	commits atomic.Int32 // of this process
	done    chan struct{}
	// complete ends the call or the planning.
	complete func()
}

// newCrashLoop starts a task, and returns once it is planning or in a call, which the pool continues when the engine dies.
func newCrashLoop(t *testing.T, planning bool) *crashLoop {
	s := &crashLoop{rig: newRigOver(t, fake.Script("write"), slog.New(slog.DiscardHandler), insideTheProcess(t)), dir: t.TempDir(), done: make(chan struct{})}
	s.complete = sync.OnceFunc(func() { close(s.done) })
	t.Cleanup(s.complete)
	s.keepPool, s.pool.Detached = true, true
	if planning {
		s.planner.BeforePlan = func(ctx context.Context) error {
			select {
			case <-s.done:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	} else {
		s.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
			<-s.done
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

// diesAfter kills the process after a time, and starts another one.
func (s *crashLoop) diesAfter(lived time.Duration) {
	s.t.Helper()
	<-time.After(lived)
	synctest.Wait()
	left := s.copyTo(s.dir, s.crashes)
	s.crashes++
	if err := s.stop(); err != nil {
		s.t.Fatal(err)
	}
	s.path = left
	s.commits.Store(0)
	s.start()
	synctest.Wait()
}

func (s *crashLoop) status() executorv1.ExecutorStatus { return s.task(s.id).Checkpoint.GetStatus() }

// A task is not ended for crashes that it does not cause: its process had followed a call of the pool, or had survived with the task
// for a while.
func TestTaskThatDoesNotCauseTheCrashes(t *testing.T) {
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
				s := newCrashLoop(t, c.planning)
				for range 12 {
					if s.diesAfter(c.lived); s.status() == failed {
						t.Fatalf("after %d crashes: %v", s.crashes, s.task(s.id).Checkpoint)
					}
				}
				s.complete()
				s.await(s.id, success)
				if n := len(s.pool.Called()); n != 1 {
					t.Errorf("%d calls", n)
				}
				s.events(s.id)
			})
		})
	}
}

// A task whose process dies soon after each recovery ends after five recoveries, while it plans or in a call.
func TestTaskThatCausesTheCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		planning bool
		lived    time.Duration
	}{
		"in a call":      {false, 500 * time.Millisecond},
		"while it plans": {true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCrashLoop(t, c.planning)
				for range 6 {
					s.diesAfter(c.lived)
				}
				if e := s.task(s.id).Checkpoint.GetError(); s.status() != failed || e.GetReason() != commonv1.ErrorReason_ERROR_REASON_NO_PROGRESS {
					t.Errorf("after %d crashes it is %s: %v", s.crashes, s.status(), e)
				}
				s.complete()
				s.events(s.id)
			})
		})
	}
}

// A recovery is one commit, however long the call then lasts. After a further crash, one more commit clears the recovery count.
func TestOneCrashCostsNoFurtherCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCrashLoop(t, false)
		s.diesAfter(time.Second)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := s.commits.Load(); n != 1 {
			t.Errorf("%d commits to recover the task, want 1", n)
		}
		s.diesAfter(0)
		<-time.After(time.Hour)
		synctest.Wait()
		if n := s.commits.Load(); n != 2 {
			t.Errorf("%d commits to recover the task again and to clear its recovery count, want 2", n)
		}
		s.complete()
		s.await(s.id, success)
	})
}
