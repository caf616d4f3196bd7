package engine_test

import (
	"testing"

	"pawl.dev/executor-svc/internal/fake"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A waiting task is cancelled without a slot, also behind the cancellation of a subtask, which needs one.
func TestCancelBehindASubtasksCancel(t *testing.T) {
	p := fake.Script("write")
	p.Subtasks = subtasks("a b")
	r := newRig(t, p)
	r.cfg.MaxRunning = 1
	r.start()
	n := newCodingTask(always)
	n.Head.PlanOptions.MaxParallel = 1
	id := r.createAs(n)
	r.await(id, waiting)
	_, call := r.takeSlot()
	defer call.open()
	if err := r.send(id, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{SubtaskId: "a"}}}); err != nil {
		t.Fatal(err)
	}
	if err := r.send(id, cancelCommand()); err != nil {
		t.Fatal(err)
	}
	r.await(id, cancelled)
}
