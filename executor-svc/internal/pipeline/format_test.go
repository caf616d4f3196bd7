package pipeline

import (
	"strings"
	"testing"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// C9: the assistant's message with the calls, then one result for each; an error reads "Error: …".
func TestResultFormatting(t *testing.T) {
	x := exchange()
	x.Text, x.Calls = "I look.", []*plannerv1.ModelToolCall{modelCall("1", "fs__read", "{}"), modelCall("2", "fs__read", "{}"), modelCall("3", "fs__read", "{}")}
	x.Results = []*pipelinev1.CompletedToolCall{
		{Id: "1", Result: "text"},
		{Id: "2", Error: &commonv1.ErrorMessage{ErrMsg: "gone"}, Outcome: commonv1.Outcome_OUTCOME_UNKNOWN},
		{Id: "3", Outcome: commonv1.Outcome_OUTCOME_KNOWN},
	}
	if err := (ResultFormatting{}).Process(t.Context(), x); err != nil || len(x.Messages) != 3 || len(x.Response.GetAddedMessages()) != 2 || len(x.Request.GetMessages()) != 1 {
		t.Fatal(x, err)
	}
	reply, results := x.Messages[1], x.Messages[2]
	if reply.GetRole() != plannerv1.ModelRole_MODEL_ROLE_ASSISTANT || reply.GetParts()[0].GetText() != "I look." || reply.GetParts()[3].GetToolCall().GetId() != "3" {
		t.Error(reply)
	}
	for i, want := range []string{"text", "Error: gone (it is not known whether the tool ran)", "(no output)"} {
		r := results.GetParts()[i].GetToolResult()
		if r.GetText() != want || r.GetCallId() != x.Results[i].GetId() || r.GetIsError() != (i == 1) {
			t.Errorf("result %d: %v", i, r)
		}
	}
	// A reply without text and calls adds nothing.
	x = exchange()
	if err := (ResultFormatting{}).Process(t.Context(), x); err != nil || len(x.Messages) != 1 || x.Response.GetMessage() == nil {
		t.Error(x, err)
	}
}

func TestResultText(t *testing.T) {
	image := &mcppoolv1.Content{Kind: &mcppoolv1.Content_Image{Image: &mcppoolv1.Blob{MimeType: "image/png", Data: []byte{1}}}}
	text := func(s string) *mcppoolv1.Content {
		return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: s}}
	}
	for want, res := range map[string]*mcppoolv1.CallResult{
		"a\nb":    {Content: []*mcppoolv1.Content{text("a"), image, text("b")}, StructuredJson: `{"n":1}`},
		`{"n":1}`: {StructuredJson: `{ "n": 1 }`},
		"(1 pieces of media, which are not shown)": {Content: []*mcppoolv1.Content{image}},
		"": {},
	} {
		if got := resultText(res); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	long := resultText(&mcppoolv1.CallResult{Content: []*mcppoolv1.Content{text("\xff" + strings.Repeat("é", maxResult))}})
	if len(long) > maxResult+100 || !strings.HasSuffix(long, "bytes)") || strings.ToValidUTF8(long, "") != long {
		t.Error(len(long))
	}
}
