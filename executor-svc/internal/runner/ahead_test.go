package runner

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
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
