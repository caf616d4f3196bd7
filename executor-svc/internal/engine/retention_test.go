package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
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
