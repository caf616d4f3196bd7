package pipeline

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// ToolCallExtractor finds the tool calls of the reply: native ones, or those that the model wrote as markup.
type ToolCallExtractor struct{}

// Process implements Processor.
func (ToolCallExtractor) Process(_ context.Context, x *Exchange) error {
	if !x.Native {
		for _, c := range parseCalls(x.Raw) {
			x.Calls = append(x.Calls, &plannerv1.ModelToolCall{Id: "call_" + uuid.NewString(), Name: c.name, InputJson: c.input(x.schemaOf(c.name))})
		}
	}
	if len(x.Calls) > maxCalls {
		x.note(&pipelinev1.CompletionNote{
			Text: fmt.Sprintf("the model asked for more than %d calls at once; the others are left out", maxCalls), Reason: commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
		})
		x.Calls = x.Calls[:maxCalls]
	}
	if x.LastReply {
		x.Calls = nil
		x.sayLimit()
	}
	if len(x.Calls) > 0 {
		x.Response.StopReason = plannerv1.StopReason_STOP_REASON_TOOL_CALLS
	} else if x.Response.GetStopReason() == plannerv1.StopReason_STOP_REASON_TOOL_CALLS {
		x.Response.StopReason = plannerv1.StopReason_STOP_REASON_END
	}
	return nil
}

// sayLimit adds to the answer that the limit of tool calls was reached, unless it is JSON.
func (x *Exchange) sayLimit() {
	x.Response.LimitReached = true
	if x.Request.GetOutputSchemaJson() != "" {
		return
	}
	text := fmt.Sprintf("(The limit of tool calls was reached: %d rounds, %d calls.)", x.Round, x.ToolCalls)
	if x.Text != "" {
		text = "\n\n" + text
	}
	x.say(text)
}

// schemaOf returns the schema of the input of a tool, or "" if there is no such tool.
func (x *Exchange) schemaOf(name string) string {
	for _, t := range x.Offered {
		if t.GetName() == name {
			return t.GetInputSchemaJson()
		}
	}
	return ""
}
