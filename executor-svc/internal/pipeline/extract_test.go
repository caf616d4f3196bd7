package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// C7: several blocks with several calls; values have the types of the tool's schema.
func TestToolCallExtractor(t *testing.T) {
	x := exchange()
	x.Native = false
	x.Raw = `I look.
<function_calls>
<invoke name="fs__read">
<parameter name="path">42</parameter>
<parameter name="lines"> 7 </parameter>
<parameter name="all">true</parameter>
<parameter name="names">["a", "b"]</parameter>
</invoke>
<invoke name="fs__read"><parameter name="path">two
lines "</parameter><parameter name="lines">many</parameter></invoke>
</function_calls> and <function_calls><invoke name="fs__write"></invoke></function_calls>
<function_calls><invoke name="other"><parameter name="n">1</parameter>`
	if err := (ToolCallExtractor{}).Process(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`fs__read {"path":"42","lines":7,"all":true,"names":["a","b"]}`, `fs__read {"path":"two\nlines \"","lines":"many"}`, `fs__write {}`, `other {"n":"1"}`,
	}
	ids := map[string]bool{}
	for i, c := range x.Calls {
		ids[c.GetId()] = true
		if i >= len(want) || c.GetName()+" "+c.GetInputJson() != want[i] {
			t.Errorf("call %d: %v", i, c)
		}
	}
	if len(ids) != len(want) || x.Response.GetStopReason() != plannerv1.StopReason_STOP_REASON_TOOL_CALLS {
		t.Error(x.Calls)
	}
}

func TestToolCallExtractorTakesNativeCalls(t *testing.T) {
	x := exchange()
	x.Raw, x.Calls = "<function_calls><invoke name=\"a\"></invoke></function_calls>", []*plannerv1.ModelToolCall{modelCall("1", "fs__read", "{}")}
	if err := (ToolCallExtractor{}).Process(t.Context(), x); err != nil || len(x.Calls) != 1 || x.Calls[0].GetId() != "1" {
		t.Error(x.Calls, err)
	}
	// C10: calls of the last reply are dropped, and the answer says why.
	x.LastReply, x.Text, x.Round, x.ToolCalls = true, "So far.", 5, 9
	if err := (ToolCallExtractor{}).Process(t.Context(), x); err != nil || len(x.Calls) != 0 || !x.Response.GetLimitReached() ||
		x.Text != "So far.\n\n(The limit of tool calls was reached: 5 rounds, 9 calls.)" || x.Response.GetStopReason() != plannerv1.StopReason_STOP_REASON_END {
		t.Error(x, err)
	}
	x.Text, x.Request.OutputSchemaJson = "{}", `{"type":"object"}`
	if err := (ToolCallExtractor{}).Process(t.Context(), x); err != nil || x.Text != "{}" {
		t.Error(x.Text, err)
	}
}

// A reply of 4 MiB, the most that a model may write, is read at once, whatever is in it.
func TestLongMarkup(t *testing.T) {
	const size = 4 << 20
	for name, part := range map[string]string{
		"calls": `<invoke name="x"></invoke>`, "parameters": `<parameter name="a">`, "blocks": openCalls + closeCalls, "tags": openCalls, "half a tag": "<function_call",
	} {
		t.Run(name, func(t *testing.T) {
			x := exchange()
			x.Native, x.Raw = false, openCalls+`<invoke name="x">`+strings.Repeat(part, size/len(part))
			var h hider
			for at := 0; at < len(x.Raw); at += 8 {
				h.write(x.Raw[at:min(at+8, len(x.Raw))])
			}
			h.end()
			if err := (ToolCallExtractor{}).Process(t.Context(), x); err != nil || len(x.Calls) > maxCalls {
				t.Errorf("%d calls, %v", len(x.Calls), err)
			}
		})
	}
}

// FuzzMarkup checks that what is shown does not depend on how a text is split, that a text without markup has no calls, and that inputs are JSON.
func FuzzMarkup(f *testing.F) {
	f.Add("a<function_calls><invoke name=\"x\"><parameter name=\"y\">1</parameter></invoke></function_calls>b", uint8(3))
	f.Add("<function_calls><invoke name=\"x\">", uint8(1))
	f.Add("<function_calls><invoke name=\"\"><parameter name=\"\">\xff</parameter></function_calls><function_", uint8(7))
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		var whole, split hider
		all := whole.write(text)
		all += whole.end()
		var pieces strings.Builder
		step := int(size)%17 + 1
		for at := 0; at < len(text); at += step {
			pieces.WriteString(split.write(text[at:min(at+step, len(text))]))
		}
		if pieces.WriteString(split.end()); pieces.String() != all {
			t.Errorf("%q is shown as %q, in pieces of %d as %q", text, all, step, pieces.String())
		}
		calls := parseCalls(text)
		for _, c := range calls {
			for _, schema := range []string{"", tools()[0].GetInputSchemaJson()} {
				if in := c.input(schema); !json.Valid([]byte(in)) {
					t.Errorf("%v has the input %s", c, in)
				}
			}
		}
		if !strings.Contains(text, openCalls) && (all != text || len(calls) > 0) {
			t.Errorf("%q has no markup, and is shown as %q with %v", text, all, calls)
		}
	})
}
