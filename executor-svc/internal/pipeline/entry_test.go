package pipeline

import (
	"strings"
	"testing"

	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// entered returns the request that ConversationEntry makes.
func entered(t *testing.T, change func(*Exchange)) *plannerv1.GenerateRequest {
	t.Helper()
	x := exchange()
	change(x)
	p := &planner{reply: func(*plannerv1.GenerateRequest) *replies[plannerv1.GenerateResponse] { return said(nil) }}
	if err := (&ConversationEntry{Planner: p}).Process(t.Context(), x); err != nil || x.Reply == nil {
		t.Fatal(x, err)
	}
	return p.asked[0]
}

func TestConversationEntry(t *testing.T) {
	const required, auto, none = plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_REQUIRED, plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_AUTO, plannerv1.ModelToolChoice_MODEL_TOOL_CHOICE_NONE
	temperature := 0.5
	req := entered(t, func(x *Exchange) {
		x.System, x.Request.Temperature, x.Request.StopSequences, x.Request.MaxOutputTokens = "Be brief.", &temperature, []string{"END"}, 7
		x.Request.Limits = &pipelinev1.CompletionLimits{MaxTokens: 100, MaxCostNanoUsd: 50}
		x.Response.Usage.InputTokens, x.Response.Usage.OutputTokens = 60, 10
	})
	if req.GetSystem() != "Be brief." || len(req.GetTools()) != 2 || req.GetTemperature() != 0.5 || req.GetMaxOutputTokens() != 7 || len(req.GetStopSequences()) != 1 ||
		req.GetBudget().GetTokens() != 30 || req.GetBudget().GetCostNanoUsd() != 50 {
		t.Error(req)
	}
	// The first round must call a tool, or the chosen one; later rounds need not.
	if req := entered(t, func(x *Exchange) { x.Request.ToolChoice = required }); req.GetToolChoice() != required {
		t.Error(req)
	}
	if req := entered(t, func(x *Exchange) { x.Request.ToolChoice, x.Round = required, 1 }); req.GetToolChoice() != auto {
		t.Error(req)
	}
	if req := entered(t, func(x *Exchange) { x.Request.ToolChoiceName = "fs/write" }); req.GetToolChoice() != required || len(req.GetTools()) != 1 || req.GetTools()[0].GetName() != "fs__write" {
		t.Error(req)
	}
	if req := entered(t, func(x *Exchange) { x.Request.ToolChoiceName, x.Round = "fs/write", 1 }); len(req.GetTools()) != 2 {
		t.Error(req)
	}
	// C10: the last reply calls no tools.
	if req := entered(t, func(x *Exchange) { x.LastReply, x.Request.ToolChoice = true, required }); req.GetToolChoice() != none || !strings.HasSuffix(req.GetSystem(), limitPrompt) {
		t.Error(req)
	}
}

// C7: a model that cannot call tools gets calls and results as text; other messages stay as they are.
func TestConversationEntryWritesMarkup(t *testing.T) {
	before := user(textPart("Read"))
	req := entered(t, func(x *Exchange) {
		x.Native = false
		x.Messages = []*plannerv1.ModelMessage{
			before,
			{Role: plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, Parts: []*plannerv1.ModelPart{
				textPart("I read."), {Part: &plannerv1.ModelPart_ToolCall{ToolCall: modelCall("1", "fs__read", `{"path":"a <b>","lines":2}`)}},
			}},
			user(&plannerv1.ModelPart{Part: &plannerv1.ModelPart_ToolResult{ToolResult: &plannerv1.ModelToolResult{CallId: "1", Text: "Error: gone", IsError: true}}}, textPart("Go on")),
		}
	})
	m := req.GetMessages()
	call := "<function_calls>\n<invoke name=\"fs__read\">\n<parameter name=\"path\">a <b></parameter>\n<parameter name=\"lines\">2</parameter>\n</invoke>\n</function_calls>"
	result := "<function_results>\n<result name=\"fs__read\">Error: gone</result>\n</function_results>"
	if len(req.GetTools()) != 0 || len(m) != 3 || m[1].GetParts()[1].GetText() != call || m[2].GetParts()[0].GetText() != result || m[2].GetParts()[1].GetText() != "Go on" {
		t.Error(req)
	}
	// What is written is what is read.
	parsed := parseCalls(call)
	if len(parsed) != 1 || parsed[0].input(tools()[0].GetInputSchemaJson()) != `{"path":"a <b>","lines":2}` {
		t.Error(parsed)
	}
}
