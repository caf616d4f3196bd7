package pipeline

import (
	"context"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// ConversationEntry asks the model.
type ConversationEntry struct {
	Planner plannerv1.PlannerServiceClient
}

// limitPrompt tells the model that it cannot call tools any longer.
const limitPrompt = "The limit of tool calls for this request is reached. Call no more tools. Answer with what you know, and say what is missing."

// Process implements Processor.
func (p *ConversationEntry) Process(ctx context.Context, x *Exchange) (err error) {
	in := x.Request
	req := &plannerv1.GenerateRequest{
		Model: in.GetModel(), System: x.System, Messages: x.Messages, MaxOutputTokens: in.GetMaxOutputTokens(), Temperature: in.Temperature,
		StopSequences: in.GetStopSequences(), OutputSchemaJson: in.GetOutputSchemaJson(), Budget: x.budget(1), Tools: x.Offered, ToolChoice: in.GetToolChoice(),
	}
	switch chosen := x.chosen(); {
	case x.LastReply:
		req.ToolChoice = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE
		req.System = strings.TrimSpace(req.GetSystem() + "\n\n" + limitPrompt)
	case x.Round > 0 && req.GetToolChoice() == plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED:
		req.ToolChoice = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_AUTO
	case x.Round == 0 && chosen != nil:
		req.Tools, req.ToolChoice = []*plannerv1.ModelTool{chosen}, plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED
	}
	if !x.Native {
		asMarkup(req)
	}
	x.Text, x.Raw, x.Calls, x.Results = "", "", nil, nil
	x.Reply, err = p.Planner.Generate(ctx, req)
	return x.modelError(err)
}

// budget returns what each of several calls may still cost.
func (x *Exchange) budget(calls uint64) *commonv1.ModelBudget {
	l, used := x.Request.GetLimits(), x.Response.GetUsage()
	left := func(limit, used uint64) *uint64 {
		if limit == 0 {
			return nil
		}
		n := (limit - min(limit, used)) / calls
		return &n
	}
	return &commonv1.ModelBudget{
		Tokens: left(l.GetMaxTokens(), used.GetInputTokens()+used.GetOutputTokens()), CostNanoUsd: left(l.GetMaxCostNanoUsd(), used.GetCostNanoUsd()),
	}
}
