package task

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Item is one event, or the error that ended the stream, or neither: then the stream goes on after a lost connection.
type Item struct {
	Event *executorv1.ExecutorEvent
	Err   error
}

// maxFutileStreams is how many streams in a row without a new event end Follow.
const maxFutileStreams = 5

// Follow sends the events of a task after a sequence number, each exactly once, and reconnects as needed. It closes the channel after the
// task's last event, after an Item with an error, or when ctx is done.
func Follow(ctx context.Context, s *discover.Session, taskID string, after uint64) <-chan Item {
	f := &follower{s: s, id: taskID, seq: after, out: make(chan Item)}
	go func() {
		defer close(f.out)
		if err := f.run(ctx); err != nil && ctx.Err() == nil {
			f.send(ctx, Item{Err: err})
		}
	}()
	return f.out
}

// isLast reports whether ev is the last event of its task.
func isLast(ev *executorv1.ExecutorEvent) bool {
	switch ev.GetType() {
	case executorv1.EventType_EVENT_TYPE_FLOW_SUCCESS, executorv1.EventType_EVENT_TYPE_FLOW_FAILED,
		executorv1.EventType_EVENT_TYPE_FLOW_CANCEL:
		return true
	}
	return false
}

type follower struct {
	s   *discover.Session
	id  string
	seq uint64 // of the last event that was sent to out
	out chan Item
}

func (f *follower) run(ctx context.Context) error {
	for futile := 0; ; {
		server, err := f.s.Server(ctx)
		if err != nil {
			return err
		}
		before := f.seq
		ended, err := f.stream(ctx, server.Conn)
		switch {
		case ended:
			return nil
		case err != nil && !discover.Gone(err):
			return err
		}
		if err == nil {
			task, err := f.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: f.id})
			if err != nil || task.GetEndTime() != nil && task.GetLastSeq() <= f.seq {
				return err
			}
		}
		if futile++; f.seq > before {
			futile = 0
		}
		if futile == maxFutileStreams {
			return ui.Errorf("the event stream of task %s broke off %d times without a new event", f.id, maxFutileStreams).
				Then("pawl watch %s --after %d%s", f.id, f.seq, f.s.Flags())
		}
		if err != nil {
			if _, err := f.s.Reconnect(ctx, server); err != nil {
				return err
			}
			f.send(ctx, Item{})
			continue
		}
		select { // the stream ended without an error, so the server may still run
		case <-ctx.Done():
		case <-time.After(time.Duration(futile) * 100 * time.Millisecond):
		}
	}
}

// stream reads one stream. It reports whether the task's last event came.
func (f *follower) stream(ctx context.Context, conn grpc.ClientConnInterface) (ended bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := executorv1.NewExecutorServiceClient(conn).WatchTask(ctx, &executorv1.WatchTaskRequest{Id: f.id, AfterSeq: f.seq})
	if err != nil {
		return false, err
	}
	for {
		ev, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if ev.GetSeq() <= f.seq {
			continue // seen before
		}
		if ev.GetSeq() != f.seq+1 {
			return false, nil // an event is missing: watch again from the last one
		}
		f.seq = ev.GetSeq()
		if !f.send(ctx, Item{Event: ev}) {
			return false, ctx.Err()
		}
		if isLast(ev) {
			return true, nil
		}
	}
}

// send passes an item on, and reports false if ctx ended first.
func (f *follower) send(ctx context.Context, item Item) bool {
	select {
	case f.out <- item:
		return true
	case <-ctx.Done():
		return false
	}
}

// await follows a task until it has ended, or until an event for which last returns true, and returns the task.
func await(ctx context.Context, s *discover.Session, task *executorv1.Task, last func(*executorv1.ExecutorEvent) bool) (*executorv1.Task, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	for item := range Follow(watching, s, task.GetId(), task.GetLastSeq()) {
		if item.Err != nil {
			return nil, item.Err
		}
		if last(item.Event) {
			break
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: task.GetId()})
}

// isStop reports whether the task waits for a person after the event.
func isStop(ev *executorv1.ExecutorEvent) bool {
	return ev.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP
}
