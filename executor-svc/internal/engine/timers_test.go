package engine_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/journal"
)

// A task's run time begins with FLOW_START, not with its creation. Here the call's intent is being committed when MaxRunTime has passed
// since the creation; the call is still stopped once the run time is spent.
func TestRunTimeEndsACallOfALateTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOver(t, fake.Script("read"), slog.New(slog.DiscardHandler), insideTheProcess(t))
		r.pool.CallFn = fake.Hang
		r.planner.BeforePlan = func(context.Context) error {
			<-time.After(1900 * time.Millisecond)
			return nil
		}
		r.j.onCommit = func(transition journal.Transition, do func() error) error {
			for _, f := range transition.Record.GetFacts() {
				if f.GetStepInput() != "" {
					<-time.After(200 * time.Millisecond)
				}
			}
			return do()
		}
		r.start()
		n := newTask(never)
		n.Head.Limits.MaxRunTime = int64(2 * time.Second)
		id := r.createAs(n)
		r.await(id, failed)
		if e := r.task(id).Checkpoint.GetError(); e.GetReason() != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED {
			t.Errorf("error %v", e)
		}
	})
}
