package runner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A18: an input that the planner left out is an error, and `{}` only if the tool's schema accepts that.
func TestOmittedInputs(t *testing.T) {
	for name, c := range map[string]struct {
		schema, given string
		fits          bool
	}{
		"accepted":          {`{"type":"object"}`, "", true},
		"no schema":         {"", "", true},
		"required property": {`{"type":"object","required":["path"]}`, "", false},
		"unreadable schema": {`{"type":`, "", false},
		"given":             {`{"type":"object","required":["path"]}`, `{"path":"x"}`, true},
	} {
		tool := &commonv1.Tool{Id: "files/read", InputSchemaJson: c.schema}
		tools := toolsetOf("files", tool)
		step := tools.propose(&plannerv1.PlannedStep{ToolId: tool.GetId(), InputJson: c.given})
		if (step.Problem == "") != c.fits {
			t.Errorf("%s: problem %q", name, step.Problem)
		}
		if c.given == "" && !c.fits && !strings.Contains(step.Problem, "the planner gave no input for files/read") {
			t.Errorf("%s: it says %q", name, step.Problem)
		}
	}
}

// historyOf returns the history of steps that have these ordinals, statuses and lines; the output of a successful one is its ordinal.
func historyOf(steps ...history.Entry) *history.Log {
	log := &history.Log{}
	for _, e := range steps {
		f := &storagev1.Fact{Ordinal: e.Ordinal, SubtaskId: e.SubtaskID, StepStatus: e.Status, Kind: &storagev1.Fact_StepInput{StepInput: "{}"}}
		if e.Status == executorv1.StepStatus_STEP_STATUS_SUCCESS {
			f.Kind = &storagev1.Fact_StepOutput{StepOutput: fmt.Sprint(e.Ordinal)}
		}
		log.Add(&storagev1.Record{Facts: []*storagev1.Fact{f}})
	}
	return log
}

// The references of the main line name steps by their ordinals. Those of a branch count its own steps, also failed ones, but not one that never ended.
func TestReferencedOutputs(t *testing.T) {
	const success, failed, running = executorv1.StepStatus_STEP_STATUS_SUCCESS, executorv1.StepStatus_STEP_STATUS_ERROR, executorv1.StepStatus_STEP_STATUS_RUNNING
	log := historyOf(
		history.Entry{Ordinal: 1, Status: success},
		history.Entry{Ordinal: 2, Status: running, SubtaskID: "p2.1"}, // of a task that was forked here
		history.Entry{Ordinal: 3, Status: failed, SubtaskID: "p2.1"},
		history.Entry{Ordinal: 4, Status: success, SubtaskID: "p2.2"},
		history.Entry{Ordinal: 5, Status: success, SubtaskID: "p2.1"},
		history.Entry{Ordinal: 6, Status: running, SubtaskID: "p2.2"},
		history.Entry{Ordinal: 7, Status: running, SubtaskID: "p2.1"},
		history.Entry{Ordinal: 8, Status: running},
	)
	const all = `{"a":"${step-1.x} ${step-01} ${step-4} ${step-8} ${branch-step-1} ${branch-step-2}","b":["${branch-step-3}","${goal}","${step-99999999999}"]}`
	for _, c := range []struct {
		running            *storagev1.ActiveStep
		input, description string
		current            string
		outputs            map[string]string
	}{
		{&storagev1.ActiveStep{Ordinal: 7, SubtaskId: "p2.1"}, all, "", "branch-step-3", map[string]string{"branch-step-2": "5"}},
		{&storagev1.ActiveStep{Ordinal: 6, SubtaskId: "p2.2"}, all, "", "branch-step-2", map[string]string{"branch-step-1": "4"}},
		{&storagev1.ActiveStep{Ordinal: 9, SubtaskId: "p2.3"}, all, "", "branch-step-1", map[string]string{}},
		{&storagev1.ActiveStep{Ordinal: 8}, all, "", "step-8", map[string]string{"step-1": "1"}},
		{&storagev1.ActiveStep{Ordinal: 8}, "{}", `What "${step-1.x}" says`, "step-8", map[string]string{"step-1": "1"}},
		{&storagev1.ActiveStep{Ordinal: 8}, `{"a":"${step-8}"}`, "${broken", "step-8", map[string]string{}},
	} {
		outputs := map[string]string{}
		steps, current := referencedOutputs(&plannerv1.PlannedStep{InputJson: c.input, Description: c.description}, c.running, log)
		for name, e := range steps {
			outputs[name] = e.OutputJSON
		}
		if current != c.current || !cmp.Equal(outputs, c.outputs) {
			t.Errorf("step %d of %q after %s %s: %s, %v", c.running.GetOrdinal(), c.running.GetSubtaskId(), c.input, c.description, current, outputs)
		}
	}
}

// chain returns the step after the n-th one in the main line or a branch, whose input is made of the output before, and the history.
func chain(branch string, n uint32) (next *plannerv1.PlannedStep, running *storagev1.ActiveStep, log *history.Log) {
	var steps []history.Entry
	for i := range n - 1 {
		steps = append(steps, history.Entry{Ordinal: i + 1, SubtaskID: branch, Status: executorv1.StepStatus_STEP_STATUS_SUCCESS})
	}
	name := flow.StepID(n - 1)
	if branch != "" {
		name = flow.BranchStepID(int(n - 1))
	}
	return &plannerv1.PlannedStep{InputJson: `{"previous":"${` + name + `}"}`, Unresolved: true}, &storagev1.ActiveStep{Ordinal: n, SubtaskId: branch}, historyOf(steps...)
}

// Issue 16: the 1,000th step that uses the output before it takes what the 10th takes.
func TestReferencedOutputsDoNotGrow(t *testing.T) {
	for _, branch := range []string{"", "p1.1"} {
		taken := map[uint32]float64{}
		for _, n := range []uint32{10, 1000} {
			next, running, log := chain(branch, n)
			taken[n] = testing.AllocsPerRun(100, func() {
				if outputs, _ := referencedOutputs(next, running, log); len(outputs) != 1 {
					t.Fatalf("%d outputs, want that of the step before", len(outputs))
				}
			})
		}
		if taken[1000] > taken[10]+4 { // a longer number takes memory of its own
			t.Errorf("line %q: the 1,000th step takes %v allocations, the 10th %v", branch, taken[1000], taken[10])
		}
	}
}

func BenchmarkReferencedOutputs(b *testing.B) {
	for _, n := range []uint32{10, 100, 1000} {
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			next, running, log := chain("", n)
			b.ReportAllocs()
			for b.Loop() {
				referencedOutputs(next, running, log)
			}
		})
	}
}
