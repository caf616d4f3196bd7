package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/engine"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	"pawl.dev/executor-svc/internal/journal/journaltest"
	"pawl.dev/executor-svc/internal/runner"
)

// Ended tasks and archived topics are deleted after the retention, and no others.
func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		now := time.Now().UnixNano()
		task := journaltest.NewTask("ann")
		task.Checkpoint.Status, task.Checkpoint.EndTime = executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS, now
		if _, _, err := s.Create(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		topics := map[bool]string{}
		for _, archived := range []bool{true, false} {
			topic := journaltest.NewTopic("ann")
			topic.Archived, topic.CreateTime = archived, now
			topics[archived] = uuid.NewString()
			if _, _, err := s.CreateTopic(t.Context(), topics[archived], topic, nil, 0); err != nil {
				t.Fatal(err)
			}
		}
		log := slog.New(slog.DiscardHandler)
		e := engine.New(engine.Config{Retention: time.Hour}, engine.Deps{Journal: s, Log: log, Runner: runner.New(runner.Config{}, nil, nil, log)})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- e.Run(ctx) }()
		defer func() { cancel(); <-ran }()
		want := func(when string, deleted bool) {
			_, task := s.Load(t.Context(), task.ID)
			_, archived := s.Topic(t.Context(), topics[true])
			_, open := s.Topic(t.Context(), topics[false])
			if errors.Is(task, journal.ErrNotFound) != deleted || errors.Is(archived, journal.ErrNotFound) != deleted || open != nil {
				t.Errorf("%s: the task: %v, the archived topic: %v, the other: %v", when, task, archived, open)
			}
		}
		time.Sleep(59 * time.Minute) //nolint:forbidigo // the time of synctest
		want("before", false)
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		want("after", true)
	})
}

// slowSweeps is a journal whose sweeps take 10 ms each and delete nothing but say that they deleted what is left.
type slowSweeps struct {
	*bolt.Store
	left, busy atomic.Int64
}

func (s *slowSweeps) Sweep(_ context.Context, _ time.Time, most int) (int, error) {
	const takes = 10 * time.Millisecond
	time.Sleep(takes) //nolint:forbidigo // the time of synctest
	s.busy.Add(int64(takes))
	n := min(int64(most), s.left.Load())
	s.left.Add(-n)
	return int(n), nil
}

// The deletion of old tasks is as fast as tasks become old: at least 3,000/s with deletions of 10 ms, and half of the time is left to
// running tasks. If none are old, there is little to do.
func TestRetentionKeepsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "journal.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		j, log := &slowSweeps{Store: s}, slog.New(slog.DiscardHandler)
		e := engine.New(engine.Config{Retention: time.Hour}, engine.Deps{Journal: j, Log: log, Runner: runner.New(runner.Config{}, nil, nil, log)})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- e.Run(ctx) }()
		defer func() { cancel(); <-ran }()
		const backlog = 1 << 20
		j.left.Store(backlog)
		time.Sleep(time.Minute + 10*time.Second) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if deleted := backlog - j.left.Load(); deleted < 10*3000 || j.busy.Load() > int64(6*time.Second) {
			t.Errorf("%d tasks were deleted in 10 s, which took %s", deleted, time.Duration(j.busy.Load()))
		}
		j.left.Store(0)
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		const perSecond = 500
		for range 60 {
			j.left.Add(perSecond)
			time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
		}
		synctest.Wait()
		if left := j.left.Load(); left > 2*perSecond {
			t.Errorf("%d tasks are left, though %d become old in a second", left, perSecond)
		}
		j.left.Store(0)
		j.busy.Store(0)
		time.Sleep(time.Hour) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if j.busy.Load() > int64(time.Second) {
			t.Errorf("looking for old tasks took %s of an hour", time.Duration(j.busy.Load()))
		}
	})
}
