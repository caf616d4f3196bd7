package playbook

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const full = `# counts and reads
name: Count Go files
goal: How many Go files are there?
steps:
  - id: find
    tool: workspace/search_files
    description: Find files for ${goal}
    input: { pattern: "**/*.go", deep: { list: [1, 1.50, 0x1F, 9007199254740993, .5, +2, true, null, "", "a$${b}"] }, when: 2026-01-02, yes: no }
    expect:
      - { path: structured.count, gte: 1, lte: 1e3 }
      - path: structured.files
        contains: "main.go"
    risk: medium
  - tool: workspace/read_file
    input:
      path: ${find.structured.files.0}
      12: x
    on_error: continue
answer: |
  There are ${find.structured.count} Go files.
`

func TestParse(t *testing.T) {
	p, err := Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "Count Go files" || p.Goal != "How many Go files are there?" || len(p.Steps) != 2 || p.Answer != `"There are ${find.structured.count} Go files.\n"` {
		t.Errorf("%+v", p)
	}
	first, second := p.Steps[0], p.Steps[1]
	want := `{"pattern":"**/*.go","deep":{"list":[1,1.50,31,9007199254740993,0.5,2,true,null,"","a$${b}"]},"when":"2026-01-02","yes":"no"}`
	if d := cmp.Diff(want, first.Input); d != "" {
		t.Errorf("exact input: %s", d)
	}
	if first.ID != "find" || first.Risk != commonv1.RiskLevel_RISK_LEVEL_MEDIUM || first.Continue || len(first.Expect) != 2 || len(first.Expect[0].Checks) != 2 || first.Line != 5 {
		t.Errorf("%+v", first)
	}
	if second.ID != "step2" || !second.Continue || second.Input != `{"path":"${find.structured.files.0}","12":"x"}` {
		t.Errorf("%+v", second)
	}
	if d := cmp.Diff([]string{"workspace/search_files", "workspace/read_file"}, p.ToolIDs()); d != "" {
		t.Error(d)
	}
}

// Strict: each of these is an error that names the line.
func TestParseRefuses(t *testing.T) {
	const step = "steps:\n- {tool: a/b}\n"
	for name, tc := range map[string]struct {
		text  string
		wants []string // violations
	}{
		"nothing":                 {"", []string{"line 1: it is empty"}},
		"a comment":               {"# only\n", []string{"line 1: it is empty"}},
		"a list":                  {"- a\n", []string{"line 1: the playbook: must be an object, is an array"}},
		"no steps":                {"name: x\n", []string{"line 1: the playbook: required property \"steps\" is missing"}},
		"empty steps":             {"name: x\nsteps: []\n", []string{"line 2: steps: must have at least 1 item, has 0"}},
		"steps no list":           {"steps: 5\n", []string{"line 1: steps: must be an array, is a number"}},
		"unknown key":             {"title: x\n" + step, []string{"line 1: the playbook: has unknown property \"title\""}},
		"unknown step key":        {"steps:\n- tool: a/b\n  inputs: {}\n", []string{"line 3: step 1: has unknown property \"inputs\", did you mean \"input\"?"}},
		"key twice":               {"name: x\nname: y\n" + step, []string{"line 2: `name` is given twice"}},
		"no tool":                 {"steps:\n- {id: x}\n", []string{"line 2: step 1: required property \"tool\" is missing"}},
		"a tool without a server": {"steps:\n- {tool: read}\n", []string{"line 2: step 1: tool: must match the pattern ^[^/]+/.+$, is \"read\"; it is the id of a tool, SERVER/NAME"}},
		"FINAL":                   {"steps:\n- {tool: FINAL}\n", []string{"line 2: step 1: tool: must match"}},
		"a step that is a text":   {"steps:\n- hello\n", []string{"line 2: step 1: must be an object, is a string"}},
		"duplicate ids":           {"steps:\n- {id: x, tool: a/b}\n- {id: x, tool: a/b}\n", []string{"line 3: the id x is taken by step 1"}},
		"a default id taken":      {"steps:\n- {id: step2, tool: a/b}\n- {tool: a/b}\n", []string{"line 3: the id step2 is taken by step 1"}},
		"a bad id":                {"steps:\n- {id: 1x, tool: a/b}\n", []string{"line 2: step 1: id: must match", "it begins with a letter"}},
		"the id goal":             {"steps:\n- {id: goal, tool: a/b}\n", []string{"line 2: step 1: id: must not fit the schema under \"not\"; it begins with a letter, has only letters, digits, _ and -, and is not `goal`"}},
		"a later step": {"steps:\n- tool: a/b\n  input:\n    x: ${two.y}\n- {id: two, tool: a/b}\n",
			[]string{"line 4: step 1 refers to ${two.y}, but no step before it is called two; it can refer to goal"}},
		"itself":                  {"steps:\n- {id: one, tool: a/b, input: {x: \"${one}\"}}\n", []string{"step 1 (one) refers to ${one}, but no step before it is called one"}},
		"an unknown step":         {step + "answer: ${nobody.x}\n", []string{"line 3: the answer refers to ${nobody.x}", "it can refer to goal, step1"}},
		"a member of the goal":    {step + "answer: ${goal.x}\n", []string{"the goal is a text and has no members"}},
		"an open reference":       {step + "answer: ${step1\n", []string{"line 3:", "closing brace"}},
		"an empty reference":      {step + "answer: ${}\n", []string{"line 3:", "is not a reference"}},
		"a reference in expect":   {"steps:\n- tool: a/b\n  expect: [{path: x, equals: \"${later.y}\"}]\n", []string{"refers to ${later.y}"}},
		"input no mapping":        {"steps:\n- {tool: a/b, input: [1]}\n", []string{"line 2: step 1: input: must be null or an object, is an array"}},
		"an input key twice":      {"steps:\n- tool: a/b\n  input:\n    x: 1\n    x: 2\n", []string{"line 5: `x` is given twice"}},
		"a key that is no text":   {"steps:\n- tool: a/b\n  input:\n    [a]: 1\n", []string{"line 4:"}},
		"an anchor":               {"steps:\n- tool: a/b\n  input: {a: &x 1, b: *x}\n", []string{"line 3: anchors and aliases are not supported"}},
		"a merge":                 {"steps:\n- tool: a/b\n  input: {<<: {a: 1}}\n", []string{"line 3: keys must be strings"}},
		"not a number":            {"steps:\n- {tool: a/b, input: {a: .nan}}\n", []string{"line 2: .nan is not a number in JSON"}},
		"a tag":                   {"steps:\n- {tool: a/b, input: {a: !secret x}}\n", []string{"line 2: this value has a type that JSON does not have"}},
		"binary":                  {"steps:\n- {tool: a/b, input: {a: !!binary aGk=}}\n", []string{"type that JSON does not have"}},
		"unknown operator":        {"steps:\n- tool: a/b\n  expect:\n  - {path: x, eq: 1}\n", []string{"line 4: step 1: expect.0: has unknown property \"eq\""}},
		"no operator":             {"steps:\n- tool: a/b\n  expect:\n  - {path: x}\n", []string{"line 4: step 1: expect.0: fits none of the alternatives: (1) required property \"exists\" is missing; (2) required property \"equals\""}},
		"expect no list":          {"steps:\n- {tool: a/b, expect: {path: x}}\n", []string{"step 1: expect: must be an array, is an object; it is a list, such as `- {"}},
		"a bad path":              {"steps:\n- {tool: a/b, expect: [{path: \"$.x\", exists: true}]}\n", []string{"step 1: expect.0.path: must match", "it consists of names and indexes separated by dots"}},
		"gte a text":              {"steps:\n- {tool: a/b, expect: [{path: x, gte: a}]}\n", []string{"step 1: expect.0.gte: must match", "it is a number, or a reference to one"}},
		"a bad pattern":           {"steps:\n- {tool: a/b, expect: [{path: x, matches: \"(\"}]}\n", []string{"`matches` must be a regular expression"}},
		"exists a number":         {"steps:\n- {tool: a/b, expect: [{path: x, exists: 1}]}\n", []string{"step 1: expect.0.exists: must be a boolean, is a number"}},
		"on_error":                {"steps:\n- {tool: a/b, on_error: retry}\n", []string{"step 1: on_error: must be one of \"stop\", \"continue\"; is \"retry\""}},
		"risk":                    {"steps:\n- {tool: a/b, risk: extreme}\n", []string{"step 1: risk: must be one of \"low\", \"medium\", \"high\"; is \"extreme\""}},
		"an empty text":           {"name: \" \"\n" + step, []string{"line 1: name: must match the pattern \\S, is"}},
		"two documents":           {step + "---\n" + step, []string{"a second YAML document begins"}},
		"no YAML":                 {"steps:\n  - tool: a/b\n bad", []string{"it is not valid YAML"}},
		"a tab":                   {"steps:\n\t- x\n", []string{"line 2: it is not valid YAML"}},
		"several things at once":  {"steps:\n- {tool: a, risk: x}\n- {id: 1, tool: a/b, bogus: 1}\n", []string{"line 2: step 1: tool:", "line 2: step 1: risk:", "line 3: step 2: id:", "line 3: step 2: has unknown property \"bogus\""}},
		"deeper than is sensible": {"steps:\n- {tool: a/b, input: {a: " + strings.Repeat("[", 80) + strings.Repeat("]", 80) + "}}\n", []string{"nested too deeply"}},
	} {
		_, err := Parse(tc.text)
		var e *errs.Error
		if !errors.As(err, &e) || e.Code != codes.InvalidArgument || e.Reason != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK || e.Metadata["line"] == "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var all strings.Builder
		for _, v := range e.Violations {
			all.WriteString(v.Field + " " + v.Description + "\n")
		}
		for _, want := range tc.wants {
			if !strings.Contains(all.String(), want) {
				t.Errorf("%s: lacks %q:\n%s", name, want, all.String())
			}
		}
		if !strings.Contains(e.Message, "line ") {
			t.Errorf("%s: the message names no line: %s", name, e.Message)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add("steps:\n- {tool: a/b, input: {a: &x [*x]}}\n")
	f.Add("steps: [{tool: a/b, expect: [{path: x, equals: {a: [1e5, \"${goal}\"]}}]}]\nanswer: $${x}\n")
	f.Add("steps:\n- {id: a, tool: a/b, if: \"goal != ''\", foreach: [1], retry: {attempts: 2}, input: {a: \"${item}\"}}\n- {tool: a/b, foreach: \"steps['a'].output.filter(x, x > 1)\"}\n")
	f.Add("steps:\n- {parallel: [{steps: [{id: a, tool: a/b}]}, {steps: [{tool: a/b, input: {x: \"${a}\"}}]}]}\n- {tool: a/b, if: \"steps.a.status == 'x'\"}\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK {
				t.Errorf("another error: %v", err)
			}
			return
		}
		if len(p.Steps) == 0 || len(p.ToolIDs()) == 0 {
			t.Error("a playbook without steps")
		}
	})
}
