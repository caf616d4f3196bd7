package pipeline

import (
	"context"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
)

// Recursion has the model asked again as long as there are results that it has not seen, whatever they are. If a limit is reached, the model answers once more without
// calling tools. It also passes calls of the client's tools to the client.
type Recursion struct{}

// Process implements Processor.
func (Recursion) Process(_ context.Context, x *Exchange) error {
	if x.Again = len(x.Results) > 0; x.Again {
		x.LastReply = x.Round >= x.maxRounds() || x.ToolCalls >= x.maxToolCalls()
		return nil
	}
	for _, c := range x.Calls {
		x.Out.Send(&pipelinev1.StreamCompleteResponse{Event: &pipelinev1.StreamCompleteResponse_ToolCall{ToolCall: c}})
	}
	return nil
}
