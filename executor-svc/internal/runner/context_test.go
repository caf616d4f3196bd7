package runner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Outputs that the history does not keep are read for a planner call, and count against the budget until it ends. What does not fit into one request is
// replaced with a note, here the oldest outputs.
func TestHistoryFitsIntoARequest(t *testing.T) {
	big := `{"message":"` + strings.Repeat("x", 12<<20) + `"}`
	log, stored := &history.Log{MaxOutputs: 1 << 20}, map[uint64]string{}
	for n, output := range []string{big, big, big, big, `{"message":"small"}`} {
		stored[uint64(n+1)] = output
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{{
			Ordinal: uint32(n + 1), StepStatus: executorv1.StepStatus_STEP_STATUS_SUCCESS, Kind: &storagev1.Fact_StepOutput{StepOutput: output},
		}}})
	}
	task := &flow.Task{Head: &storagev1.TaskHead{}, State: &storagev1.Checkpoint{}}
	s := New(Config{}, nil, nil, slog.New(slog.DiscardHandler)).Session("t", 1, task.Head, Memory{})
	s.ReadOutput = func(_ context.Context, seq uint64) (string, error) { return stored[seq], nil }
	c := s.context(task, log, nil)
	full, held, err := s.withOutputs(t.Context(), c)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	held.Release()
	for i, want := range []bool{false, false, true, true, true} {
		e := full.GetHistory()[i]
		if kept := e.GetOutputJson() == stored[uint64(i+1)]; kept != want || e.GetOutputOmitted() == want || !kept && !strings.Contains(e.GetOutputJson(), "left out") {
			t.Errorf("entry %d: kept is %v and omitted %v, want it kept: %v", i, kept, e.GetOutputOmitted(), want)
		}
	}
	if size := proto.Size(c); size > 10_000 {
		t.Errorf("between two calls, the context has %d bytes", size)
	}
	s.ReadOutput = func(context.Context, uint64) (string, error) { return "", io.ErrUnexpectedEOF }
	if _, _, err := s.withOutputs(t.Context(), c); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an output that cannot be read: %v", err)
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
	s := New(Config{}, nil, nil, slog.New(slog.DiscardHandler)).Session("t", 1, task.Head, Memory{})
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
