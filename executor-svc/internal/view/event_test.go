package view_test

import (
	"testing"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

// Each event of a record has its own payload.
func TestEventsOfARecordDoNotShareTheirPayloads(t *testing.T) {
	task := &journal.Task{ID: "t", Head: &storagev1.TaskHead{}, Checkpoint: &storagev1.Checkpoint{}}
	output := func(json string) *storagev1.Fact {
		return &storagev1.Fact{Ordinal: 1, Attempt: 1, Kind: &storagev1.Fact_StepOutput{StepOutput: json}}
	}
	begun := func(json string) *storagev1.Fact {
		return &storagev1.Fact{Ordinal: 1, Attempt: 1, Kind: &storagev1.Fact_StepInput{StepInput: json}}
	}
	r := journal.Record{FirstSeq: 1, Record: &storagev1.Record{Facts: []*storagev1.Fact{output(`{"n":1}`), output(`[2]`), output(`{"n":3}`)}}}
	events := view.Events(task, r)
	for i, want := range []struct {
		json string
		n    float64
	}{{`{"n":1}`, 1}, {`[2]`, 0}, {`{"n":3}`, 3}} {
		got := events[i].GetStepOutput()
		if got.GetOutputJson() != want.json || got.GetOutput().GetFields()["n"].GetNumberValue() != want.n || (want.n == 0) != (got.GetOutput() == nil) {
			t.Errorf("event %d: %v, want %s", i, got, want.json)
		}
	}
	r.Facts = []*storagev1.Fact{output(`{"n":1}`), begun(`{"n":2}`), begun(`{"n":3}`)}
	events = view.Events(task, r)[1:]
	if len(events) != 2 {
		t.Fatalf("%d events after the first", len(events))
	}
	for i, n := range []float64{2, 3} {
		if got := events[i].GetStepInput(); got.GetInput().GetFields()["n"].GetNumberValue() != n || got.GetCallId() != "t/step-1/1" {
			t.Errorf("input %d: %v", i, got)
		}
	}
}
