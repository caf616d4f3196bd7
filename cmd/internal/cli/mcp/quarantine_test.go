package mcp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func shown(before, after string, changes ...string) string {
	return quarantinedText(ui.Style{}, &mcppoolv1.QuarantinedTool{
		Tool: &commonv1.Tool{Id: "s/t\x1b[2J"}, DefinitionJson: after, ApprovedDefinitionJson: before, ApprovedDefinitionHash: "x", Changes: changes,
	})
}

// Each changed place is shown as it was and as it is now, however deep it is.
func TestQuarantinedPlaces(t *testing.T) {
	before := `{"a":[1,{"x~/y":"old"}],"gone":true,"n":1.0,"s":"1"}`
	after := `{"a":[1,{"x~/y":"new"}],"n":1.00,"s":1}`
	got := shown(before, after, "/a/1/x~0~1y", "/gone", "/n", "/s", "/a/7/q", "")
	for _, want := range []string{
		"  /a/1/x~0~1y\n    - \"old\"\n    + \"new\"\n", "  /gone\n    - true\n    + (absent)\n", "  /n\n    - 1.0\n    + 1.00\n",
		"  /s\n    - \"1\"\n    + 1\n", "  /a/7/q\n    - (absent)\n    + (absent)\n", "  the whole definition\n    - {\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

// If the list of changes may be incomplete, the whole definition is shown.
func TestQuarantinedShowsAllWhereChangesMayBeMissing(t *testing.T) {
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf("/k%d", i))
	}
	after := `{"a":1,"a":2}`
	for name, changes := range map[string][]string{"none": nil, "as many as are told": many} {
		if got := shown(`{"a":2}`, after, changes...); !strings.Contains(got, "the whole definition\n  {\n    \"a\": 1,\n    \"a\": 2\n  }\n") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if got := shown(`{"a":1}`, after, many[:49]...); strings.Contains(got, "whole") {
		t.Errorf("49 changes are all there are:\n%s", got)
	}
}

// A text cannot command the terminal, nor look like another line of the comparison.
func TestQuarantinedHostile(t *testing.T) {
	got := shown(`{"d":"a"}`, `{"d":"a\n\n  definition hash 00\u001b[2J\u202e\nb"}`, "/d")
	if i := strings.IndexAny(got, "\x1b\u202e"); i >= 0 {
		t.Errorf("%q", got)
	}
	if !strings.Contains(got, "    +   definition hash 00") {
		t.Errorf("a line without its mark:\n%s", got)
	}
}

// A stack trace keeps its lines, under the step that it belongs to; a narrow terminal breaks lines between words.
func TestMessagesOfManyLines(t *testing.T) {
	const trace = "MCP server fs: it ended; its stderr ends with: Error: no\n    at f (a.js:1)\n\x1b[2J"
	report := &mcppoolv1.TestMcpServerResponse{Checks: []*mcppoolv1.ServerCheck{{
		Name: "connect", Status: mcppoolv1.ServerCheck_STATUS_FAILED, Message: trace, Advice: "a long advice that is on several lines\nb",
	}}}
	for columns, want := range map[int]string{
		0: "✗ connect  MCP server fs: it ended; its stderr ends with:\n           Error: no\n               at f (a.js:1)\n           ␛[2J\n" +
			"           → a long advice that is on several lines\n             b\n",
		36: "✗ connect  MCP server fs: it ended;\n           its stderr ends with:\n           Error: no\n               at f (a.js:1)\n           ␛[2J\n" +
			"           → a long advice that is\n    on several lines\n    b\n",
	} {
		if diff := cmp.Diff(want, checksText(ui.Style{}, columns, report)); diff != "" {
			t.Errorf("%d columns: %s", columns, diff)
		}
	}
}
