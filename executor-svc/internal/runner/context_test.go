package runner

import (
	"log/slog"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Outputs that do not fit into one request are replaced with a note, here the oldest ones.
func TestHistoryFitsIntoARequest(t *testing.T) {
	big := `{"message":"` + strings.Repeat("x", 12<<20) + `"}`
	var history []*plannerv1.HistoryEntry
	for range 4 {
		history = append(history, &plannerv1.HistoryEntry{OutputJson: big})
	}
	history = append(history, &plannerv1.HistoryEntry{OutputJson: `{"message":"small"}`})
	dropLargeOutputs(history)
	for i, want := range []bool{false, false, true, true, true} {
		kept := !strings.Contains(history[i].GetOutputJson(), "left out")
		if kept != want || history[i].GetOutputOmitted() == want {
			t.Errorf("entry %d: kept is %v and omitted %v, want it kept: %v", i, kept, history[i].GetOutputOmitted(), want)
		}
	}
}

// The question of a branch leaves out the steps of the branches that run beside it, but not those that ended before (D7).
func TestHistoryOfABranch(t *testing.T) {
	log := &history.Log{}
	for n, id := range []string{"", "before", "own", "beside", "own"} {
		log.Entries = append(log.Entries, &history.Entry{Ordinal: uint32(n + 1), SubtaskID: id, Status: executorv1.StepStatus_STEP_STATUS_SUCCESS})
	}
	lanes := []*storagev1.Lane{{}, {Id: 3, SubtaskId: "own"}, {Id: 4, SubtaskId: "beside"}}
	task := &flow.Task{Head: &storagev1.TaskHead{}, State: &storagev1.Checkpoint{Lanes: lanes}}
	s := New(Config{}, nil, nil, slog.New(slog.DiscardHandler)).Session("t", 1, task.Head, nil)
	for lane, want := range []string{"step-1 step-2 step-3 step-4 step-5", "step-1 step-2 step-3 step-5", "step-1 step-2 step-4"} {
		var got []string
		for _, e := range s.context(task, log, lanes[lane]).GetHistory() {
			got = append(got, e.GetStepId())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("lane %d: %v, want %s", lane, got, want)
		}
	}
}
