package input

import (
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
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

// A10: the input is mended with the content and the description that a person supplied.
func TestMerge(t *testing.T) {
	for _, tc := range []struct{ schema, in, content, description, failure, want string }{
		{search, `{"query":"a"}`, `{"query":null,"max_results":"3"}`, "", "", `{"query":"a","max_results":3}`},
		{search, `{}`, `{"Query":"b","unknown":1}`, "", "", `{"query":"b"}`},
		{search, `{"query":"a"}`, ``, "path=docs and max_results=5", "", `{"query":"a","path":"docs","max_results":5}`},
		{search, `{}`, `"just this"`, "", "", `{"query":"just this"}`},
		{write, `{"path":"x","content":"c"}`, ``, "use docs/a.md instead", `"x" not found: path is invalid`, `{"path":"docs/a.md","content":"c"}`},
		{sum, `{"a":1}`, `{"b":"9007199254740993"}`, "", "", `{"a":1,"b":9007199254740993}`},
		{open, `{"a":1}`, `{"b":2}`, "", "", `{"a":1,"b":2}`},
		{search, `{"query":"a"}`, ``, "", "", `{"query":"a"}`},
		{search, `{"query":"a"}`, `{"max_results":"many"}`, "", "", `{"query":"a","max_results":"many"}`},
	} {
		got := Merge(newTool("x", tc.schema), object(t, tc.in), tc.content, tc.description, tc.failure)
		if got.String() != tc.want {
			t.Errorf("%s + %s + %q: %s, want %s", tc.in, tc.content, tc.description, got, tc.want)
		}
	}
}

// A11: an input that failed is made again as the tool takes it. No value is changed to one that was not given.
func TestMergeOfAFailedInput(t *testing.T) {
	for _, tc := range []struct{ schema, failed, goal, want string }{
		{search, `{"query":"a","bogus":1}`, "", `{"query":"a"}`},
		{search, `{"query":"a","MaxResults":7}`, "", `{"query":"a","max_results":7}`},
		{search, `{"query":"a","max_results":"7"}`, "", `{"query":"a","max_results":7}`},
		{search, `{"query":"a","max_results":700}`, "", `{"query":"a","max_results":700}`},
		{search, `{"query":"a","path":null}`, "", `{"query":"a"}`},
		{search, `{}`, `search for "x"`, `{"query":"x"}`},
		{weather, `{"location":"chicago","unit":"c"}`, "", `{"location":"Chicago","unit":"c"}`},
		{weather, `{"location":"New","unit":"c"}`, "", `{"location":"New","unit":"c"}`},
		{search, `{"query":"a","path":"guide.md"}`, "", `{"query":"a","path":"guide.md"}`},
		{sum, `{"a":1,"b":2,"extra":3}`, "", `{"a":1,"b":2,"extra":3}`},
	} {
		got := Merge(newTool("x", tc.schema), ParamsOf(newTool("x", tc.schema)).Fill(Scan(tc.goal)).Input, tc.failed, "", "")
		if got.String() != tc.want {
			t.Errorf("%s: %s, want %s", tc.failed, got, tc.want)
		}
	}
}
