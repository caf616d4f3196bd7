package engine

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

const (
	// watchBytes bounds the bytes of records that a watcher reads at once, unless one record is larger.
	watchBytes = 256 << 10
	// freeBytes of records are not counted against the budget of watchers.
	freeBytes = 64 << 10
	// encodedFactor times the bytes of its records is what a watcher holds: the events, and their JSON on the way to a client.
	encodedFactor = 3
	// maxReading is how many watchers and owners read records at once, because records may be large: those of watchers may then have to wait for the budget.
	maxReading = 2
)

// Watch calls send for each event of a task whose seq is greater than after. It returns once all committed events were sent and the task
// has ended or stops returns true for its status.
func (e *Engine) Watch(ctx context.Context, taskID string, after uint64, stops func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	w := e.hub.watch(taskID)
	defer e.hub.unwatch(w)
	serverStopping := serve.Stopping(ctx)
	for {
		t, sent, err := e.sendAfter(ctx, w, after, send)
		if err != nil {
			return err
		}
		if after = sent; after < t.Checkpoint.GetLastSeq() {
			continue
		}
		if status := t.Checkpoint.GetStatus(); state.Ended(status) || stops(status) {
			return nil
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.draining:
			return watchStopped()
		case <-serverStopping:
			return watchStopped()
		}
	}
}

// sendAfter sends the next events after a seq, and returns the task and the seq of the last event that was sent.
func (e *Engine) sendAfter(ctx context.Context, w *watcher, after uint64, send func(*executorv1.ExecutorEvent) error) (*journal.Task, uint64, error) {
	t, records, held, err := e.eventsAfter(ctx, w, after)
	if err != nil {
		return nil, 0, err
	}
	defer held.Release()
	for _, r := range records {
		for _, event := range r.events() {
			if event.GetSeq() <= after {
				continue
			}
			if err := send(event); err != nil {
				return nil, 0, err
			}
			after = event.GetSeq()
		}
	}
	if sizeOf(records) > freeBytes {
		return t, after, inproc.Flush(ctx) // the bytes are held until the client has them
	}
	return t, after, nil
}

// eventsAfter returns the task and its next records after a seq, whose bytes count against the user's budget while they are held. A watcher that
// waits for the budget, because others do not read, holds no records: it reads them again afterwards.
func (e *Engine) eventsAfter(ctx context.Context, w *watcher, after uint64) (t *journal.Task, records []*eventRecord, held *serve.Holding, err error) {
	for most := int64(freeBytes); ; {
		var complete bool
		if t, records, complete = w.after(after); !complete {
			if t, records, err = e.readEvents(ctx, w.feed.id, after); err != nil {
				held.Release()
				return nil, nil, nil, err
			}
		}
		size := sizeOf(records)
		if size <= most {
			return t, records, held, nil
		}
		held.Release()
		if held = e.watching.TryAcquire(userOf(ctx), encodedFactor*size); held != nil {
			return t, records, held, nil
		}
		most = size
		if held, err = e.watching.Acquire(ctx, userOf(ctx), encodedFactor*size); err != nil {
			return nil, nil, nil, err
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

// sizeOf returns the bytes of records.
func sizeOf(records []*eventRecord) (n int64) {
	for _, r := range records {
		n += int64(r.size)
	}
	return n
}

// watchStopped returns the error that ends a watch at shutdown.
func watchStopped() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; the task goes on when it is back: watch the task again, from the seq of the last event that you saw")
}

// readEvents reads records that are not in memory from the journal.
func (e *Engine) readEvents(ctx context.Context, taskID string, after uint64) (*journal.Task, []*eventRecord, error) {
	found, err := e.records(ctx, taskID, after, watchBytes)
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
