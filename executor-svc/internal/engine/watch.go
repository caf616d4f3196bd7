package engine

import (
	"context"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"

	"pawl.dev/executor-svc/internal/feed"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

// maxReading is how many watchers and owners read records at once, because records may be large: those of watchers may then have to wait for the budget.
const maxReading = 2

// Watch calls send for each event of a task whose seq is greater than after. It returns once all committed events were sent and the task
// has ended or stops returns true for its status.
func (e *Engine) Watch(ctx context.Context, taskID string, after uint64, stops func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	w := e.hub.feeds.Watch(taskID)
	defer e.hub.feeds.Unwatch(w)
	var t *journal.Task
	s := &feed.Sender[*executorv1.ExecutorEvent]{Budget: e.watching, User: userOf(ctx), Send: send, After: after}
	s.Read = func(ctx context.Context, after uint64) (records []*eventRecord, err error) {
		var complete bool
		if t, records, complete = w.Feed.State.after(after); !complete {
			t, records, err = e.readEvents(ctx, taskID, after)
		}
		return records, err
	}
	for {
		if err := s.Next(ctx, func(*executorv1.ExecutorEvent) bool { return false }); err != nil {
			return err
		}
		if s.After < t.Checkpoint.GetLastSeq() {
			continue
		}
		if status := t.Checkpoint.GetStatus(); state.Ended(status) || stops(status) {
			return nil
		}
		if err := feed.Wait(ctx, w.More, e.draining); err != nil {
			return err
		}
	}
}

func userOf(ctx context.Context) string {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return ""
	}
	return who.Sub
}

// readEvents reads records that are not in memory from the journal.
func (e *Engine) readEvents(ctx context.Context, taskID string, after uint64) (*journal.Task, []*eventRecord, error) {
	found, err := e.records(ctx, taskID, after, feed.ReadBytes)
	if err != nil {
		return nil, nil, err
	}
	t, err := e.deps.Journal.Load(ctx, taskID)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*eventRecord, 0, len(found))
	for _, r := range found {
		records = append(records, newEventRecord(r, t))
	}
	return t, records, nil
}

// records is journal.Tasks.Records, of which at most maxReading run at once.
func (e *Engine) records(ctx context.Context, taskID string, after uint64, maxBytes int) ([]journal.Record, error) {
	select {
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return e.deps.Journal.Records(ctx, taskID, after, maxBytes)
}
