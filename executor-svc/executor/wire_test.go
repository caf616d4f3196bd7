package executor_test

import (
	"context"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/fake"
)

// wire is a connection to the pool that can be cut: then nothing is sent, and each RPC fails with UNAVAILABLE.
type wire struct {
	grpc.ClientConnInterface
	cut   atomic.Bool
	tried chan string // the methods of RPCs that failed because the wire was cut
}

func (w *wire) send(method string) error {
	if !w.cut.Load() {
		return nil
	}
	w.tried <- path.Base(method)
	return status.Error(codes.Unavailable, "connection refused")
}

func (w *wire) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := w.send(method); err != nil {
		return err
	}
	return w.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (w *wire) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := w.send(method); err != nil {
		return nil, err
	}
	return w.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// untilTried waits until an RPC of that method has failed because the wire was cut.
func (w *wire) untilTried(t *testing.T, method string) {
	t.Helper()
	timer := time.NewTimer(20 * time.Second)
	defer timer.Stop()
	for {
		select {
		case tried := <-w.tried:
			if tried == method {
				return
			}
		case <-timer.C:
			t.Fatalf("%s was not tried", method)
		}
	}
}

// cancelCut cancels a task while the wire is cut, and restores the wire once a CancelCall has failed.
func (w *wire) cancelCut(r *rig, id string) {
	r.t.Helper()
	if _, err := r.tasks.CancelTask(r.t.Context(), &executorv1.CancelTaskRequest{Id: id}); err != nil {
		r.t.Fatal(err)
	}
	w.untilTried(r.t, "CancelCall")
	w.cut.Store(false)
	r.until(id, executorv1.EventType_EVENT_TYPE_FLOW_CANCEL)
}

func newWiredRig(t *testing.T) (*rig, *wire) {
	t.Helper()
	r, w := newRig(t, fake.Script("write")), &wire{tried: make(chan string, 1000)}
	r.stop()
	r.connect = func(pool grpc.ClientConnInterface) grpc.ClientConnInterface {
		w.ClientConnInterface = pool
		return w
	}
	r.start()
	return r, w
}

// A cancelled task starts nothing, not even a call that waited for a pool out of reach.
func TestCancelledCallIsNotSentLater(t *testing.T) {
	r, wire := newWiredRig(t)
	req := free(r)
	r.planner.BeforePlan = func(ctx) error { wire.cut.Store(true); return nil }
	id := r.create(req).GetId()
	wire.untilTried(t, "CallTools")
	wire.cancelCut(r, id)
	if calls := r.pool.Called(); len(calls) != 0 {
		t.Errorf("called after the cancel: %v", calls)
	}
	if e := r.until(id, executorv1.EventType_EVENT_TYPE_STEP_CANCEL).GetStepCancel(); e.GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
		t.Errorf("the step's end %v", e)
	}
}

// An answer that waited for a pool out of reach is not given to a call whose task was cancelled meanwhile: the call is stopped
// instead.
func TestAnswerIsNotGivenAfterACancel(t *testing.T) {
	r, wire := newWiredRig(t)
	r.elicit(round(form("q1")))
	id := r.create(free(r)).GetId()
	w := r.untilWait(id, inputWait)
	wire.cut.Store(true)
	r.mustInput(id, w.GetId(), `{"city":"Bern"}`)
	wire.untilTried(t, "AnswerCall")
	wire.cancelCut(r, id)
	if answers := r.pool.Seen().Answers; len(answers) != 0 {
		t.Fatalf("answered after the cancel: %v", answers)
	}
	r.untilCallStopped(id + "/step-1/1")
}
