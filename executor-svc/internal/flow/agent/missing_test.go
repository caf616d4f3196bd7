package agent_test

import (
	"strings"
	"testing"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/agent"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A25: a task without its current step is an explicit error, whatever happens to it.
func TestMissingStep(t *testing.T) {
	for _, in := range []flow.Input{
		flow.Called{Ordinal: 1, Attempt: 2}, flow.Moved{Ordinal: 1, Attempt: 2}, flow.Elicited{Ordinal: 1, Attempt: 2}, flow.McpTask{Ordinal: 1, Attempt: 2},
		flow.Undelivered{Ordinal: 1, Attempt: 2}, flow.NotStarted{Ordinal: 1}, flow.Progress{Ordinal: 1, Attempt: 2},
		flow.Derived{Ordinal: 1}, flow.Diagnosed{Ordinal: 1}, flow.ToolRefreshed{Ordinal: 1},
	} {
		task := calling()
		task.State.Lanes[0].Step = nil
		if _, err := agent.New().Apply(task, 0, in); err == nil || !strings.Contains(err.Error(), "no current step") {
			t.Errorf("%T: %v", in, err)
		}
	}
	for _, phase := range []storagev1.Phase{
		storagev1.Phase_PHASE_START, storagev1.Phase_PHASE_CALL, storagev1.Phase_PHASE_DERIVE, storagev1.Phase_PHASE_DIAGNOSE,
		storagev1.Phase_PHASE_REFRESH_TOOL, storagev1.Phase_PHASE_FILL,
	} {
		task := calling()
		task.State.Lanes[0].Step, task.State.Lanes[0].Phase = nil, phase
		if _, err := agent.New().Resume(task, true); err == nil || !strings.Contains(err.Error(), "no current step") {
			t.Errorf("%s: %v", phase, err)
		}
	}
}
