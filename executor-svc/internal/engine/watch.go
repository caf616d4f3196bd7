package engine

import (
	"context"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

// watchBytes is how much a watcher reads at once.
const watchBytes = 256 << 10

// Watch reads a task's events after a seq and gives each to send, which says whether to go on. It returns when the task
// has ended, or stands where until says so, and all was sent.
func (e *Engine) Watch(ctx context.Context, taskID string, after uint64, until func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	w := e.hub.watch(taskID)
	defer e.hub.leave(w)
	return e.follow(ctx, w, after, until, send)
}

// Starter creates a task and watches it from its beginning: nothing of it has to be read from the journal.
type Starter struct {
	e *Engine
	w *watcher
}

// Starter returns one for a single task; it is to be closed.
func (e *Engine) Starter() *Starter { return &Starter{e: e} }

// Create is Engine.Create.
func (s *Starter) Create(ctx context.Context, n journal.NewTask) (string, error) {
	s.Close()
	s.w = s.e.hub.expect(n)
	id, err := s.e.Create(ctx, n)
	if err != nil || id != n.ID {
		s.Close()
	}
	return id, err
}

// Watch is Engine.Watch.
func (s *Starter) Watch(ctx context.Context, taskID string, after uint64, until func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	if s.w == nil || s.w.topic.id != taskID {
		return s.e.Watch(ctx, taskID, after, until, send)
	}
	return s.e.follow(ctx, s.w, after, until, send)
}

// Close forgets the task.
func (s *Starter) Close() {
	if s.w != nil {
		s.e.hub.leave(s.w)
		s.w = nil
	}
}

func (e *Engine) follow(ctx context.Context, w *watcher, after uint64, until func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	leaving := serve.Stopping(ctx)
	for {
		n := w.after(after)
		t, records := n.task, n.records
		if !n.complete {
			var err error
			if t, records, err = e.readFor(ctx, w.topic.id, after); err != nil {
				return err
			}
		}
		for _, r := range records {
			for _, event := range r.events() {
				if event.GetSeq() <= after {
					continue
				}
				if err := send(event); err != nil {
					return err
				}
				after = event.GetSeq()
			}
		}
		if after < t.Checkpoint.GetLastSeq() {
			continue
		}
		if status := t.Checkpoint.GetStatus(); state.Ended(status) || until(status) {
			return nil
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.draining:
			return stopping()
		case <-leaving:
			return stopping()
		}
	}
}

// readFor reads what memory does not have.
func (e *Engine) readFor(ctx context.Context, taskID string, after uint64) (*journal.Task, []*shared, error) {
	found, err := e.deps.Journal.Records(ctx, taskID, after, watchBytes)
	if err != nil {
		return nil, nil, err
	}
	t, err := e.deps.Journal.Peek(ctx, taskID)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*shared, 0, len(found))
	for _, r := range found {
		records = append(records, share(t, r))
	}
	return t, records, nil
}
