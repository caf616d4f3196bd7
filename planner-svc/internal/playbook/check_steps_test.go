package playbook

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/errs"
)

var strictTools = append([]*commonv1.Tool{{
	Id: "ws/write_file", McpId: "ws", Name: "write_file", Effect: commonv1.Effect_EFFECT_WRITE,
	InputSchemaJson: `{"type":"object","properties":{"path":{"type":"string"},"mode":{"enum":["a","w"]}},"required":["path"],"additionalProperties":false}`,
}}, tools...)

// A playbook that cannot work calls nothing: its later steps are looked at before the first one.
func TestAllStepsAreLookedAtFirst(t *testing.T) {
	for name, c := range map[string]struct {
		steps string
		says  []string
	}{
		"an unknown tool":     {"- {tool: ws/find}\n- {tool: ws/raed}\n", []string{"step 2: ws/raed is not one of the task's tools", "did you mean ws/read?", "nothing was called"}},
		"another server's":    {"- {tool: ws/find}\n- {tool: workspace/read}\n", []string{"did you mean ws/read?"}},
		"nothing like it":     {"- {tool: ws/find}\n- {id: x, tool: mail/send, on_error: continue}\n", []string{"step 2 (x): mail/send is not one of the task's tools", "inactive", "out of reach", "quarantined", "`pawl mcp tools mail`", "`pawl mcp tools mail --quarantined`"}},
		"a misspelt argument": {"- {tool: ws/find}\n- {tool: ws/write_file, input: {pth: a}}\n", []string{`step 2: the input does not fit the schema of ws/write_file: has unknown property "pth", did you mean "path"?`}},
		"a wrong value":       {"- {tool: ws/write_file, input: {path: a, mode: w}}\n- {tool: ws/write_file, input: {path: \"${goal}\", mode: x}}\n", []string{`step 2: `, `must be one of "a", "w"; is "x"`}},
		"several":             {"- {tool: ws/find}\n- {tool: ws/none}\n- {tool: ws/write_file, input: {path: 1}}\n", []string{"step 2: ws/none", "(and 1 more)"}},
	} {
		_, err := planAll(t, &plannerv1.TaskContext{Goal: "g", Playbook: "steps:\n" + c.steps, Tools: strictTools})
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
}

// What is not known yet, may be supplied by a person, or may fail, is no reason to refuse a playbook (A16).
func TestWhatMayComeRightIsLeftAlone(t *testing.T) {
	for name, steps := range map[string]string{
		"a reference":          "- {id: a, tool: ws/find}\n- {tool: ws/write_file, input: {path: \"${a.message}\", mode: \"${a.structured.mode}\"}}\n",
		"something is missing": "- {tool: ws/find}\n- {tool: ws/write_file, input: {mode: w}}\n",
		"it may fail":          "- {tool: ws/find}\n- {tool: ws/write_file, input: {path: 1}, on_error: continue}\n",
	} {
		if steps, err := planAll(t, &plannerv1.TaskContext{Goal: "g", Playbook: "steps:\n" + steps, Tools: strictTools}); err != nil || steps[0].GetToolId() != "ws/find" {
			t.Errorf("%s: %v, %v", name, steps, err)
		}
	}
}
