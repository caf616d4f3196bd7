package history_test

import (
	"slices"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	running = executorv1.StepStatus_STEP_STATUS_RUNNING
	waiting = executorv1.StepStatus_STEP_STATUS_WAITING
	success = executorv1.StepStatus_STEP_STATUS_SUCCESS
)

func status(wait string, s executorv1.StepStatus) *storagev1.Fact {
	return &storagev1.Fact{WaitId: wait, StepStatus: s, Kind: &storagev1.Fact_StatusChanged{StatusChanged: &storagev1.StatusChanged{}}}
}

// A step's run time is that of its newest attempt, without the time that a person took to answer: before it, during it, or to settle
// its outcome.
func TestRunTime(t *testing.T) {
	ask := &storagev1.Fact{WaitId: "wait-1", StepStatus: waiting, Kind: &storagev1.Fact_InputRequired{InputRequired: &storagev1.InputRequired{}}}
	unknown := &storagev1.Fact{WaitId: "wait-2", StepStatus: waiting, Kind: &storagev1.Fact_StepWaitingForStart{
		StepWaitingForStart: &storagev1.StepWaitingForStart{OutcomeUnknown: &storagev1.ErrorNote{}},
	}}
	input := &storagev1.Fact{StepStatus: running, Kind: &storagev1.Fact_StepInput{StepInput: "{}"}}
	output := &storagev1.Fact{StepStatus: success, Kind: &storagev1.Fact_StepOutput{StepOutput: "{}"}}
	progress := &storagev1.Fact{StepStatus: running, Kind: &storagev1.Fact_ToolProgress{ToolProgress: &storagev1.ToolProgress{}}}
	var log history.Log
	for _, s := range []struct {
		at   int64
		fact *storagev1.Fact
		want int64
	}{
		{10, input, 0}, {11, progress, 0}, {15, ask, 5}, {115, status("wait-1", running), 5}, {118, unknown, 8}, {900, output, 8},
		{1000, input, 0}, {1004, output, 4},
	} {
		s.fact.Ordinal = 1
		log.Add(&storagev1.Record{Time: s.at, Facts: []*storagev1.Fact{s.fact}})
		if got := log.Entries[0].RunTime; got != s.want {
			t.Errorf("at %d, after %T: %d, want %d", s.at, s.fact.GetKind(), got, s.want)
		}
	}
}

// Of several waits that were opened together, WaitID is one that is still open.
func TestOpenWaits(t *testing.T) {
	var log history.Log
	for _, s := range []struct {
		wait string
		kind *storagev1.Fact
		want string
	}{
		{"wait-1", &storagev1.Fact{Kind: &storagev1.Fact_InputRequired{}}, "wait-1"}, {"wait-2", &storagev1.Fact{Kind: &storagev1.Fact_InputRequired{}}, "wait-2"},
		{"wait-2", status("", waiting), "wait-1"}, {"wait-1", status("", running), ""},
	} {
		s.kind.Ordinal, s.kind.WaitId = 1, s.wait
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{s.kind}})
		if e := log.Entries[0]; e.WaitID != s.want || e.Asking() != (s.want != "") {
			t.Errorf("after %s: it waits for %q, want %q", s.wait, e.WaitID, s.want)
		}
	}
}

// Issue 13: the history of a running task keeps the newest outputs, up to a bound, and no large ones. Those of the newest record are kept, because they
// cannot be read from the journal before they are durable.
func TestBoundedOutputs(t *testing.T) {
	log := history.Log{MaxOutputs: 1000}
	add := func(sizes ...int) {
		r := &storagev1.Record{}
		for n, size := range sizes {
			r.Facts = append(r.Facts, &storagev1.Fact{
				Ordinal: uint32(len(log.Entries) + n + 1), StepStatus: success, Kind: &storagev1.Fact_StepOutput{StepOutput: strings.Repeat("x", size)},
			})
		}
		log.Add(r)
	}
	for _, s := range []struct {
		sizes []int
		kept  []bool
	}{
		{[]int{400}, []bool{true}},
		{[]int{history.LargeOutput}, []bool{true, false}},
		{[]int{600}, []bool{true, false, true}},
		{[]int{1}, []bool{false, false, true, true}},
		{[]int{700, 0, 800}, []bool{false, false, false, false, true, true, true}},
		{[]int{100}, []bool{false, false, false, false, false, true, true, true}},
	} {
		add(s.sizes...)
		for n, e := range log.Entries {
			if e.IsStored() == s.kept[n] || e.OutputSeq != uint64(n+1) || !e.IsStored() && len(e.OutputJSON) != e.OutputSize {
				t.Errorf("after %v, output %d of %d bytes: %d are kept, seq %d", s.sizes, n+1, e.OutputSize, len(e.OutputJSON), e.OutputSeq)
			}
		}
	}
}

// Steps are found in their line once they have ended. A failed step that begins again is not among them until it ends.
func TestEndedSteps(t *testing.T) {
	const failed, initial = executorv1.StepStatus_STEP_STATUS_ERROR, executorv1.StepStatus_STEP_STATUS_INIT
	var log history.Log
	for _, s := range []struct {
		line    string
		ordinal uint32
		status  executorv1.StepStatus
		want    map[string][]uint32
	}{
		{"", 1, running, map[string][]uint32{}},
		{"", 1, success, map[string][]uint32{"": {1}}},
		{"b", 2, running, map[string][]uint32{"": {1}}},
		{"", 3, running, map[string][]uint32{"": {1}}},
		{"", 4, success, map[string][]uint32{"": {1, 4}}},
		{"", 3, failed, map[string][]uint32{"": {1, 3, 4}}},
		{"b", 2, failed, map[string][]uint32{"": {1, 3, 4}, "b": {2}}},
		{"b", 2, initial, map[string][]uint32{"": {1, 3, 4}}},
		{"b", 2, success, map[string][]uint32{"": {1, 3, 4}, "b": {2}}},
		{"b", 2, success, map[string][]uint32{"": {1, 3, 4}, "b": {2}}},
	} {
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{{Ordinal: s.ordinal, SubtaskId: s.line, StepStatus: s.status, Kind: &storagev1.Fact_StepInput{}}}})
		for _, line := range []string{"", "b"} {
			var got []uint32
			for _, e := range log.EndedSteps(line) {
				got = append(got, e.Ordinal)
				if log.EndedStep(line, e.Ordinal) != e {
					t.Errorf("step %d of line %q is not found", e.Ordinal, line)
				}
			}
			if !slices.Equal(got, s.want[line]) || log.EndedStep(line, 5) != nil {
				t.Errorf("after step %d became %s, line %q has %v, want %v", s.ordinal, s.status, line, got, s.want[line])
			}
		}
	}
}
