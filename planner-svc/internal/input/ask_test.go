package input

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/services/schema"

	"pawl.dev/planner-svc/internal/lang"
)

func TestOffending(t *testing.T) {
	for _, tc := range []struct {
		schema, in, failure string
		want                []string
	}{
		{search, `{}`, "", []string{"query"}},
		{search, `{"query":"a","max_results":700}`, "", []string{"max_results"}},
		{search, `{"query":"a","path":"dcos"}`, `"dcos" does not exist`, []string{"path"}},
		{search, `{"query":"a","path":"x"}`, "invalid path", []string{"path"}},
		{search, `{"query":"a"}`, "the text cannot be searched", []string{"query"}},
		{wait, `{}`, "no", []string{"duration", "steps", "verbose"}},
		{search, `{"query":"a"}`, "max_results out of range", []string{"max_results"}},
	} {
		got := Offending(newTool("x", tc.schema), object(t, tc.in), tc.failure)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s %q:\n%s", tc.in, tc.failure, d)
		}
	}
}

// A16: every field of the form is nullable, none is required.
func TestForm(t *testing.T) {
	const raw = `{"type":"object","$defs":{"d":{"type":"string"}},"required":["a","b"],"properties":{
		"a":{"type":"string","title":"A","description":"the a","minLength":1},
		"b":{"enum":["x","y"],"type":"string"},
		"c":{"$ref":"#/$defs/d","description":"the c"},
		"d":{"anyOf":[{"type":"string"},{"type":"integer"}]},
		"e":{"type":["integer","null"]},
		"f":{"const":1},
		"g":{}}}`
	x := newTool("x", raw)
	got := Form(x, []string{"a", "b", "c", "d", "e", "f", "g", "unknown"})
	want := `{"type":"object","properties":{` +
		`"a":{"type":["string","null"],"title":"A","description":"the a","minLength":1},` +
		`"b":{"enum":["x","y",null],"type":["string","null"]},` +
		`"c":{"description":"the c","type":["string","null"]},` +
		`"d":{"type":["string","integer","null"]},` +
		`"e":{"type":["integer","null"]},` +
		`"f":{"type":["number","null"]},` +
		`"g":{}},"required":[]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s, err := schema.Compile(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(`{"a":null,"b":null,"c":null,"d":null,"e":null,"f":null,"g":null}`); err != nil {
		t.Errorf("not every field is nullable: %v", err)
	}
	if err := s.Validate(`{}`); err != nil {
		t.Errorf("something is required: %v", err)
	}
}

func TestFormOfSchemasThatReferAround(t *testing.T) {
	x := newTool("x", `{"type":"object","properties":{"a":{"type":"string","title":"A"},"b":{"$ref":"#/properties/a","title":"B"}},"required":["b"]}`)
	got := Form(x, []string{"b"})
	s, err := schema.Compile(got)
	if err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	if p := s.Properties(); len(p) != 1 || s.Validate(`{"b":null}`) != nil {
		t.Errorf("%s", got)
	}
}

// A15: errors about values are the input's; those of networks, permissions and time are not.
func TestIsParamError(t *testing.T) {
	for failure, want := range map[string]bool{
		`"/path": must be a string, is a number`:               true,
		"required property \"query\" is missing":               true,
		`"x.md" does not exist: use list_directory`:            true,
		"ENOENT: no such file or directory, open '/tmp/x'":     true,
		"MCP error -32602: Invalid arguments for tool get-sum": true,
		"Invalid timezone: 'Mars'":                             true,
		"HTTP 404: page not found":                             true,
		"参数 path 无效":                                           true,
		"context deadline exceeded":                            false,
		"request timed out: missing response":                  false,
		"connection refused":                                   false,
		"permission denied: /etc/shadow is invalid":            false,
		`no permission to read "x"`:                            false,
		"401 Unauthorized: invalid token":                      false,
		"429 Too Many Requests":                                false,
		"HTTP 503: required service unavailable":               false,
		"it crashed":                                           false,
		"连接超时":                                                 false,
	} {
		if got := IsParamError(newTool("x", search), object(t, `{"query":"a"}`), failure); got != want {
			t.Errorf("%q: %v", failure, got)
		}
	}
	if !IsParamError(newTool("x", search), object(t, `{"query":1}`), "it crashed") {
		t.Error("an input that does not fit the schema is to blame")
	}
}

// A16: at most 50 words, in Chinese 50 characters.
func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		l                 lang.Lang
		in, failure, want string
	}{
		{lang.EN, `{}`, "x", "find needs values for: query."},
		{lang.ZH, `{}`, "x", "find 还需要：query。"},
		{lang.EN, `{"query":"a","path":"dcos"}`, `"dcos" does not exist`, `find failed: "dcos" does not exist`},
		{lang.EN, `{"query":"a","max_results":70}`, "no", `find: "max_results" must be at most 50, is 70.`},
		{lang.EN, `{"query":"a"}`, "it broke\nstack", "find failed: it broke"},
	} {
		if got := Describe(tc.l, newTool("find", search), object(t, tc.in), tc.failure); got != tc.want {
			t.Errorf("%s %q: %q, want %q", tc.in, tc.failure, got, tc.want)
		}
	}
	if got := Shorten(lang.EN, strings.Repeat("word ", 80)); len(strings.Fields(got)) != 50 {
		t.Errorf("%d words", len(strings.Fields(got)))
	}
	if got := Shorten(lang.ZH, strings.Repeat("字", 80)); len([]rune(got)) != 50 {
		t.Errorf("%d characters", len([]rune(got)))
	}
	if got := Shorten(lang.EN, strings.Repeat("x", 10_000)); len(got) > 600 {
		t.Errorf("one word of %d bytes", len(got))
	}
}
