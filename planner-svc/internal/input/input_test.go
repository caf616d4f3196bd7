package input

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/goal"
	"pawl.dev/services/strictjson"
)

func newTool(name, schema string) *catalog.Tool {
	return catalog.NewTool(&commonv1.Tool{Id: "srv/" + name, McpId: "srv", Name: name, InputSchemaJson: schema, Effect: commonv1.Effect_EFFECT_READ})
}

func object(t *testing.T, text string) *strictjson.Object {
	t.Helper()
	o, err := strictjson.ParseObject(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	sum     = `{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`
	search  = `{"type":"object","properties":{"query":{"type":"string"},"path":{"type":"string"},"max_results":{"type":"integer","minimum":1,"maximum":50}},"required":["query"],"additionalProperties":false}`
	wait    = `{"type":"object","properties":{"duration":{"type":"number","description":"in seconds","default":10},"steps":{"type":"integer"},"verbose":{"type":"boolean"}}}`
	weather = `{"type":"object","properties":{"location":{"type":"string","enum":["New York","Chicago"]},"unit":{"type":"string","enum":["c"]}},"required":["location","unit"]}`
	copyTo  = `{"type":"object","properties":{"source":{"type":"string"},"destination":{"type":"string"}},"required":["source","destination"]}`
	write   = `{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"]}`
	many    = `{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"}}},"required":["paths"]}`
	values  = `{"type":"object","properties":{"values":{"type":"array","items":{"type":"number"}}},"required":["values"]}`
	echo    = `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`
	fetch   = `{"type":"object","properties":{"url":{"type":"string"},"raw":{"type":"boolean"}},"required":["url"]}`
	open    = `{}`
)

func TestFromClause(t *testing.T) {
	known := Known{Paths: []string{"a/b.md", "c.md"}, Text: "found"}
	for _, tc := range []struct{ name, schema, goal, want string }{
		{"get-sum", sum, "add 2 and 3", `{"a":2,"b":3}`},
		{"get-sum", sum, "add 9007199254740993 and -1.50", `{"a":9007199254740993,"b":-1.50}`},
		{"get-sum", sum, "sum of b=3 and a=2", `{"a":2,"b":3}`},
		{"get-sum", sum, `sum {"b": 1e2, "a": "7"}`, `{"a":7,"b":1e2}`},
		{"get-sum", sum, "add 2", `{"a":2}`},
		{"wait", wait, "wait 1,500 seconds in 3 steps", `{"duration":1500,"steps":3}`},
		{"wait", wait, "wait 5 seconds, verbose", `{"duration":5,"verbose":true}`},
		{"wait", wait, "wait without verbose", `{"verbose":false}`},
		{"wait", wait, "wait with steps 4", `{"steps":4}`},
		{"weather", weather, "weather in new york", `{"location":"New York","unit":"c"}`},
		{"copy", copyTo, "copy a.txt to b/c.txt", `{"source":"a.txt","destination":"b/c.txt"}`},
		{"write", write, `write "hello there" to notes.txt`, `{"path":"notes.txt","content":"hello there"}`},
		{"read_many", many, "read a.md and b.md", `{"paths":["a.md","b.md"]}`},
		{"values", values, "average of 1, 2 and 3.5", `{"values":[1,2,3.5]}`},
		{"echo", echo, "echo hello world", `{"message":"hello world"}`},
		{"echo", echo, "echo the message: hi", `{"message":"hi"}`},
		{"echo", echo, `please echo "a, b"`, `{"message":"a, b"}`},
		{"fetch", fetch, "fetch https://x.y/z?q=1.", `{"url":"https://x.y/z?q=1"}`},
		{"fetch", fetch, "fetch https://x.y raw", `{"url":"https://x.y","raw":true}`},
		{"open", open, `open a=1 b="x"`, `{"a":"1","b":"x"}`},
		{"open", open, `open {"deep": {"n": 1}}`, `{"deep":{"n":1}}`},
		{"search", search, "search nothing=1 query=x", `{"query":"x"}`},
	} {
		got := FromClause(newTool(tc.name, tc.schema), goal.Single(tc.goal), known)
		if got.String() != tc.want {
			t.Errorf("%s %q: %s, want %s", tc.name, tc.goal, got, tc.want)
		}
	}
}

func TestFromClauseUsesEarlierOutputs(t *testing.T) {
	c := goal.Clause{Text: "echo it", Bare: "echo it", Back: true}
	known := Known{Paths: []string{"a/b.md", "c.md"}, Text: "found"}
	for schema, want := range map[string]string{echo: `{"message":"found"}`, write: `{"path":"a/b.md","content":"found"}`, many: `{"paths":["a/b.md","c.md"]}`} {
		if got := FromClause(newTool("x", schema), c, known); got.String() != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestCoerce(t *testing.T) {
	for _, tc := range []struct {
		schema, raw, want string
		ok                bool
	}{
		{`{"type":"integer"}`, `"3"`, `3`, true},
		{`{"type":"integer"}`, `3.0`, `3`, true},
		{`{"type":"integer"}`, `"3.5"`, `"3.5"`, false},
		{`{"type":"integer"}`, `3.5`, `3.5`, false},
		{`{"type":"integer"}`, `1e9`, `1e9`, false},
		{`{"type":"integer"}`, `"12,000"`, `12000`, true},
		{`{"type":"number"}`, `"3.50"`, `3.50`, true},
		{`{"type":"number"}`, `7`, `7`, true},
		{`{"type":"number"}`, `"NaN"`, `"NaN"`, false},
		{`{"type":"string"}`, `12345678901234567890`, `"12345678901234567890"`, true},
		{`{"type":"string"}`, `true`, `"true"`, true},
		{`{"type":"boolean"}`, `"yes"`, `true`, true},
		{`{"type":"boolean"}`, `"否"`, `false`, true},
		{`{"type":"boolean"}`, `"maybe"`, `"maybe"`, false},
		{`{"type":"array","items":{"type":"string"}}`, `"a, b"`, `["a","b"]`, true},
		{`{"type":"array","items":{"type":"integer"}}`, `"1, 2"`, `[1,2]`, true},
		{`{"type":"array"}`, `"[1, 2]"`, `[1,2]`, true},
		{`{"type":"array"}`, `5`, `[5]`, true},
		{`{"type":"object"}`, `"{\"a\": 1}"`, `{"a":1}`, true},
		{`{"enum":["Red","blue"]}`, `"red"`, `"Red"`, true},
		{`{"enum":[1,2]}`, `"2"`, `2`, true},
		{`{"type":["string","null"]}`, `null`, `null`, true},
		{`{}`, `"3"`, `"3"`, true},
	} {
		p := newTool("x", `{"type":"object","properties":{"p":`+tc.schema+`}}`).Props[0]
		if got, ok := Coerce(&p, tc.raw); got != tc.want || ok != tc.ok {
			t.Errorf("%s as %s: %s %v, want %s %v", tc.raw, tc.schema, got, ok, tc.want, tc.ok)
		}
	}
}

// A10: the input is mended with the content and the description that a person supplied.
func TestMerge(t *testing.T) {
	for _, tc := range []struct{ schema, in, content, description, failure, want string }{
		{search, `{"query":"a"}`, `{"query":null,"max_results":"3"}`, "", "", `{"query":"a","max_results":3}`},
		{search, `{}`, `{"Query":"b","unknown":1}`, "", "", `{"query":"b"}`},
		{search, `{"query":"a"}`, ``, "path=docs and max_results=5", "", `{"query":"a","path":"docs","max_results":5}`},
		{search, `{}`, `"just this"`, "", "", `{"query":"just this"}`},
		{write, `{"path":"x","content":"c"}`, ``, "use docs/a.md instead", `"x" not found: path is invalid`, `{"path":"docs/a.md","content":"c"}`},
		{sum, `{"a":1}`, `{"b":"9007199254740993"}`, "", "", `{"a":1,"b":9007199254740993}`},
		{open, `{"a":1}`, `{"b":2}`, "c=3", "", `{"a":1,"b":2,"c":"3"}`},
		{search, `{"query":"a"}`, ``, "", "", `{"query":"a"}`},
		{search, `{"query":"a"}`, `{"max_results":"many"}`, "", "", `{"query":"a","max_results":"many"}`},
	} {
		got := Merge(newTool("x", tc.schema), object(t, tc.in), tc.content, tc.description, tc.failure)
		if got.String() != tc.want {
			t.Errorf("%s + %s + %q: %s, want %s", tc.in, tc.content, tc.description, got, tc.want)
		}
	}
}

// A11: from the second attempt on, the input is made again with the error in view.
func TestRepair(t *testing.T) {
	for _, tc := range []struct{ schema, failed, failure, goal, want string }{
		{search, `{"query":"a","bogus":1}`, "unknown property bogus", "", `{"query":"a"}`},
		{search, `{"query":"a","MaxResults":7}`, "unknown property MaxResults", "", `{"query":"a","max_results":7}`},
		{search, `{"query":"a","max_results":"7"}`, "must be integer", "", `{"query":"a","max_results":7}`},
		{search, `{"query":"a","max_results":700}`, "at most 50", "", `{"query":"a","max_results":50}`},
		{search, `{"query":"a","max_results":"many"}`, "must be integer", "", `{"query":"a"}`},
		{search, `{"query":"a","path":null}`, "must be string", "", `{"query":"a"}`},
		{search, `{}`, "query is required", `search for "x"`, `{"query":"x"}`},
		{weather, `{"location":"chicago","unit":"c"}`, "must be one of", "", `{"location":"Chicago","unit":"c"}`},
		{weather, `{"location":"New","unit":"c"}`, "must be one of", "", `{"location":"New York","unit":"c"}`},
		{search, `{"query":"a","path":"dcos"}`, `"dcos" does not exist; there is "docs": use that`, "", `{"query":"a","path":"docs"}`},
		{search, `{"query":"a"}`, "connection refused", "", `{"query":"a"}`},
		{sum, `{"a":1,"b":2,"extra":3}`, "Unrecognized key: extra", "", `{"a":1,"b":2}`},
		{sum, `{"a":1,"b":2,"extra":3}`, "internal error", "", `{"a":1,"b":2,"extra":3}`},
	} {
		got := Repair(newTool("x", tc.schema), object(t, tc.failed), tc.failure, goal.Single(tc.goal), Known{})
		if got.String() != tc.want {
			t.Errorf("%s after %q: %s, want %s", tc.failed, tc.failure, got, tc.want)
		}
	}
}

func TestSlots(t *testing.T) {
	for _, tc := range []struct {
		schema string
		slots  Slots
		want   string
	}{
		{search, Slots{Query: "x", Path: "docs"}, `{"query":"x","path":"docs"}`},
		{search, Slots{Query: "x", Path: "."}, `{"query":"x"}`},
		{`{"type":"object","properties":{"pattern":{"type":"string"},"regex":{"type":"boolean"},"include":{"type":"string"}}}`,
			Slots{Query: "x", Regex: "x+", Glob: "*.go"}, `{"pattern":"x+","regex":true,"include":"*.go"}`},
		{write, Slots{}, `{"path":"."}`},
		{many, Slots{Path: "a"}, `{"paths":["a"]}`},
		{`{"type":"object","properties":{"path":{"type":"string"},"start_line":{"type":"integer"},"end_line":{"type":"integer"}}}`,
			Slots{Path: "a", Lines: goal.Lines{From: 3, To: 5}}, `{"path":"a","start_line":3,"end_line":5}`},
		{`{"type":"object","properties":{"path":{"type":"string"},"head":{"type":"number"},"tail":{"type":"number"}}}`,
			Slots{Path: "a", Lines: goal.Lines{Last: 5}}, `{"path":"a","tail":5}`},
		{`{"type":"object","properties":{"path":{"type":"string"},"mode":{"const":"r"},"n":{"type":"integer","default":3}},"required":["mode","n"]}`,
			Slots{Path: "a"}, `{"path":"a","mode":"r","n":3}`},
	} {
		if got := FromSlots(newTool("x", tc.schema), tc.slots); got.String() != tc.want {
			t.Errorf("%+v: %s, want %s", tc.slots, got, tc.want)
		}
	}
}

func TestDefinitionRegexIsValid(t *testing.T) {
	p := newTool("x", search)
	in := FromSlots(p, Slots{Regex: DefinitionRegex("a.b+")})
	if d := cmp.Diff([]string{"query"}, in.Keys()); d != "" {
		t.Error(d)
	}
}
