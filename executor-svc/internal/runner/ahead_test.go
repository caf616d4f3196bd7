package runner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

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
		tools := &toolset{byID: map[string]*commonv1.Tool{tool.GetId(): tool}}
		step := tools.propose(&plannerv1.PlannedStep{ToolId: tool.GetId(), InputJson: c.given})
		if (step.Problem == "") != c.fits {
			t.Errorf("%s: problem %q", name, step.Problem)
		}
		if c.given == "" && !c.fits && !strings.Contains(step.Problem, "the planner gave no input for files/read") {
			t.Errorf("%s: it says %q", name, step.Problem)
		}
	}
}

// The references of the main line name steps by their ordinals. Those of a branch count its own steps, also failed ones, but not one that never ended.
func TestReferencedOutputs(t *testing.T) {
	const success, failed, running = executorv1.StepStatus_STEP_STATUS_SUCCESS, executorv1.StepStatus_STEP_STATUS_ERROR, executorv1.StepStatus_STEP_STATUS_RUNNING
	log := &history.Log{Entries: []*history.Entry{
		{Ordinal: 1, Status: success, OutputJSON: "1", OutputSize: 1},
		{Ordinal: 2, Status: running, SubtaskID: "p2.1"}, // of a task that was forked here
		{Ordinal: 3, Status: failed, SubtaskID: "p2.1"},
		{Ordinal: 4, Status: success, SubtaskID: "p2.2", OutputJSON: "4", OutputSize: 1},
		{Ordinal: 5, Status: success, SubtaskID: "p2.1", OutputJSON: "5", OutputSize: 1},
		{Ordinal: 6, Status: running, SubtaskID: "p2.2"},
		{Ordinal: 7, Status: running, SubtaskID: "p2.1"},
		{Ordinal: 8, Status: running},
	}}
	for _, c := range []struct {
		running *storagev1.ActiveStep
		current string
		outputs map[string]string
	}{
		{&storagev1.ActiveStep{Ordinal: 7, SubtaskId: "p2.1"}, "branch-step-3", map[string]string{"branch-step-2": "5"}},
		{&storagev1.ActiveStep{Ordinal: 6, SubtaskId: "p2.2"}, "branch-step-2", map[string]string{"branch-step-1": "4"}},
		{&storagev1.ActiveStep{Ordinal: 8}, "step-8", map[string]string{"step-1": "1"}},
	} {
		steps, outputs := map[string]history.Entry{}, map[string]string{}
		current := referencedOutputs(c.running, log, steps)
		for name, e := range steps {
			outputs[name] = e.OutputJSON
		}
		if current != c.current || !cmp.Equal(outputs, c.outputs) {
			t.Errorf("step %d of %q: %s, %v", c.running.GetOrdinal(), c.running.GetSubtaskId(), current, outputs)
		}
	}
}
