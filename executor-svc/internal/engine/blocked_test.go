package engine_test

import (
	"errors"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/fake"
)

// A task whose planner cannot be reached says what it waits for, in its status and in an event.
func TestTaskSaysThatThePlannerIsAway(t *testing.T) {
	r := newRig(t, fake.Script())
	away, err := serve.Dial("127.0.0.1:1", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = away.Close() })
	r.plannerClient = plannerv1.NewPlannerServiceClient(away)
	r.start()
	id := r.create(never)
	const want = "waiting for the planner, which cannot be reached: "
	errSaid := errors.New("an event says so")
	endless := func(executorv1.ExecutorStatus) bool { return false }
	err = r.e.Watch(t.Context(), id, 0, endless, func(e *executorv1.ExecutorEvent) error {
		if strings.HasPrefix(e.GetStatusChanged().GetReason(), want) {
			return errSaid
		}
		return nil
	})
	if !errors.Is(err, errSaid) {
		t.Error(err)
	}
	if reason := r.task(id).Checkpoint.GetStatusReason(); !strings.HasPrefix(reason, want) {
		t.Errorf("the task says %q", reason)
	}
}
