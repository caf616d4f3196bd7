package engine

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/state"
)

// watchBytes bounds the bytes of records that a watcher reads at once.
const watchBytes = 256 << 10

// Watch calls send for each event of a task whose seq is greater than after. It returns once all committed events were sent and the task
// has ended or stops returns true for its status.
func (e *Engine) Watch(ctx context.Context, taskID string, after uint64, stops func(executorv1.ExecutorStatus) bool, send func(*executorv1.ExecutorEvent) error) error {
	w := e.hub.watch(taskID)
	defer e.hub.unwatch(w)
	serverStopping := serve.Stopping(ctx)
	for {
		t, records, complete := w.after(after)
		if !complete {
			var err error
			if t, records, err = e.readEvents(ctx, taskID, after); err != nil {
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

// watchStopped returns the error that ends a watch at shutdown.
func watchStopped() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; the task goes on when it is back: watch the task again, from the seq of the last event that you saw")
}

// readEvents reads records that are not in memory from the journal.
func (e *Engine) readEvents(ctx context.Context, taskID string, after uint64) (*journal.Task, []*eventRecord, error) {
	found, err := e.deps.Journal.Records(ctx, taskID, after, watchBytes)
	if err != nil {
		return nil, nil, err
	}
	t, err := e.deps.Journal.Load(ctx, taskID)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*eventRecord, 0, len(found))
	for _, r := range found {
		records = append(records, &eventRecord{Record: r, task: t})
	}
	return t, records, nil
}
