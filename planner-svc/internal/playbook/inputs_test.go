package playbook

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const withInputs = `
inputs:
  folder: {type: string, description: Where to look}
  most: {type: integer, default: 9007199254740993, minimum: 1}
  kind: {type: string}
steps:
- {id: find, tool: ws/find, input: {pattern: "${inputs.folder}/*.${inputs.kind}", all: "${inputs}", most: "${inputs.most}"}, if: "inputs.most > 1 && inputs.folder != ''"}
`

// Inputs are checked against their schema and get the defaults; references to them have the exact values.
func TestInputs(t *testing.T) {
	tc := context_(withInputs)
	tc.InputsJson = `{"kind":"go","folder":"docs"}`
	want := `ws/find {"pattern":"docs/*.go","all":{"kind":"go","folder":"docs","most":9007199254740993},"most":9007199254740993} LOW find`
	if got, err := planOf(t, tc); err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
	tc.InputsJson = `{"kind":"go","folder":"docs","most":1}`
	if got, err := planOf(t, tc); err != nil || got != `FINAL   The playbook is done.` {
		t.Errorf("%s %v", got, err)
	}
	for inputs, says := range map[string]string{
		``:                                   `required property "folder" is missing`,
		`{"kind":"go","folder":5}`:           `"/folder": must be a string`,
		`{"kind":"go","folder":"","mots":2}`: `has unknown property "mots"`,
		`{"kind":"go","folder":"","most":0}`: `"/most": `,
		`[]`:                                 `must be a JSON object`,
	} {
		tc.InputsJson = inputs
		_, err := planOf(t, tc)
		if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", inputs, err)
		}
	}
	tc = context_(book)
	tc.InputsJson = `{"a":1}`
	if _, err := planOf(t, tc); err == nil || !strings.Contains(err.Error(), "the playbook takes none") {
		t.Error(err)
	}
}

// Inputs can be a whole JSON Schema, where what is not required may be absent.
func TestInputsAsASchema(t *testing.T) {
	tc := context_(`
inputs: {type: object, properties: {a: {type: string, pattern: "^${x$"}, type: {enum: [x]}}, required: [type]}
steps: [{tool: ws/find, if: "!has(inputs.a)", input: {pattern: "${inputs.type}"}}]
`)
	tc.InputsJson = `{"type":"x"}`
	if got, err := planOf(t, tc); err != nil || got != `ws/find {"pattern":"x"} LOW Step 1 of 1` {
		t.Errorf("%s %v", got, err)
	}
	old := context_("steps: [{id: inputs, tool: ws/find}, {tool: ws/read, input: {x: \"${inputs.message}\"}}]", ok("ws/find", `{"message":"m"}`))
	if got, err := planOf(t, old); err != nil || got != `ws/read {"x":"m"} LOW Step 2 of 2` {
		t.Errorf("a step that is called inputs, in a playbook without any: %s %v", got, err)
	}
}

func TestInputsAreChecked(t *testing.T) {
	for inputs, says := range map[string]string{
		"[a]":                              "inputs: must be an object, is an array; it has `name: {type: …}` lines",
		"{}":                               "inputs: must have at least 1 member",
		"{a: 5}":                           "inputs.a: must be a boolean or an object, is a number",
		"{a: {type: text}}":                "`inputs`: ",
		"{a: {type: integer, default: x}}": "a default of `inputs` does not fit: \"/a\": must be an integer",
		"{a.b: {type: string}}":            `inputs: has unknown property "a.b"; it has`,
		"{b: {type: string}}":              "reads the input a, which `inputs` does not declare",
	} {
		for _, use := range []string{"input: {x: \"${inputs.a}\"}", "if: \"inputs.a == ''\""} {
			_, err := Parse("inputs: " + inputs + "\nsteps:\n- {tool: ws/find, " + use + "}\n")
			if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", inputs, err)
			}
		}
	}
	if _, err := Parse("inputs: {a: {type: string}}\nsteps: [{id: inputs, tool: ws/find}]\n"); err == nil || !strings.Contains(err.Error(), "cannot be `inputs`") {
		t.Error(err)
	}
}
