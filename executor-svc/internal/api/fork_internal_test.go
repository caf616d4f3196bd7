package api

import (
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// The default fork of a task that failed repeats a failed subtask, although a step of another subtask ended later.
func TestNewestEndIsBeforeAFailedSubtask(t *testing.T) {
	output := func(ordinal uint32) *storagev1.Fact {
		return &storagev1.Fact{Ordinal: ordinal, Kind: &storagev1.Fact_StepOutput{StepOutput: "{}"}}
	}
	records := []*storagev1.Record{{Facts: []*storagev1.Fact{
		{}, output(1), {Kind: &storagev1.Fact_SubtaskChanged{SubtaskChanged: &storagev1.SubtaskChanged{To: executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED}}}, output(2),
	}}}
	for status, want := range map[executorv1.ExecutorStatus]uint64{
		executorv1.ExecutorStatus_EXECUTOR_STATUS_ERROR: 2, executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS: 4,
	} {
		if got := newestEnd(status, records); got != want {
			t.Errorf("%s: %d, want %d", status, got, want)
		}
	}
}
