package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/executor-svc/internal/toolcall"
)

// maxResult is how many bytes of a result the model gets.
const maxResult = 32 << 10

// ResultFormatting adds the reply to the conversation, and the results of its calls: one for each call, in the order of the calls.
type ResultFormatting struct{}

// Process implements Processor.
func (ResultFormatting) Process(_ context.Context, x *Exchange) error {
	reply := &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT}
	if strings.TrimSpace(x.Text) != "" {
		reply.Parts = append(reply.Parts, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_Text{Text: x.Text}})
	}
	for _, c := range x.Calls {
		reply.Parts = append(reply.Parts, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolCall{ToolCall: c}})
	}
	x.Response.Message = reply
	if len(reply.GetParts()) > 0 {
		x.add(reply)
	}
	if len(x.Results) == 0 {
		return nil
	}
	results := &plannerv1.ModelMessage{Role: plannerv1.ModelRole_MODEL_ROLE_USER}
	for _, r := range x.Results {
		out := &plannerv1.ModelToolResult{CallId: r.GetId(), Text: cmp.Or(r.GetResult(), "(no output)")}
		if r.GetError() != nil {
			out.IsError, out.Text = true, "Error: "+r.GetError().GetErrMsg()
			if r.GetOutcome() == commonv1.Outcome_OUTCOME_UNKNOWN {
				out.Text += " (it is not known whether the tool ran)"
			}
		}
		results.Parts = append(results.Parts, &plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolResult{ToolResult: out}})
	}
	x.add(results)
	return nil
}

// resultText returns a result as the model gets it: its text, else its structured content, and what else it has.
func resultText(res *mcppoolv1.CallResult) string {
	text := toolcall.ValidUTF8(toolcall.Text(res))
	if structured := toolcall.ValidUTF8(res.GetStructuredJson()); strings.TrimSpace(text) == "" && structured != "" {
		text = strictjson.Compact(structured)
	}
	if n := len(res.GetContent()); n > 0 && text == "" {
		text = fmt.Sprintf("(%d pieces of media, which are not shown)", n)
	}
	return clip(text)
}

// clip bounds a text that the model gets.
func clip(text string) string {
	if len(text) <= maxResult {
		return text
	}
	return strings.ToValidUTF8(text[:maxResult], "") + fmt.Sprintf("\n… (cut: this is the beginning of %d bytes)", len(text))
}
