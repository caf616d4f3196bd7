package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// maxGoal is how many characters of the conversation a task gets as its goal, maxInstructions of what the request says beside it; their ends matter most.
const (
	maxGoal         = 50_000
	maxInstructions = 20_000
)

// becomeTask creates a task that continues the request, and ends the request.
func (x *Exchange) becomeTask(ctx context.Context, tasks Tasks) error {
	auto, l, used := true, x.Request.GetLimits(), x.budget(1)
	budget := &executorv1.Budget{MaxTokens: used.GetTokens(), MaxCostNanoUsd: used.GetCostNanoUsd()}
	if l.GetMaxToolCalls() > 0 {
		budget.MaxToolCalls = max(l.GetMaxToolCalls()-x.ToolCalls, 1)
	}
	task, err := tasks.CreateTask(ctx, &executorv1.CreateTaskRequest{
		Goal: x.goal(), McpIds: x.Request.GetMcpIds(), Model: x.Response.GetModel(), AutoExecute: &auto, Budget: budget,
	})
	if err != nil {
		return fmt.Errorf("creating the task that asks for the approval: %w", err)
	}
	asks := x.Calls[slices.IndexFunc(x.Calls, x.needsApproval)]
	x.Calls, x.Response.TaskId, x.Response.StopReason = nil, task.GetId(), plannerv1.StopReason_STOP_REASON_END
	if strings.TrimSpace(x.Text) != "" {
		x.say("\n\n")
	}
	x.say(fmt.Sprintf("The tool %s needs your approval. The task %s continues this request and asks for it.", x.ByName[asks.GetName()].GetId(), task.GetId()))
	if len(x.Request.GetTools()) > 0 {
		x.note(&pipelinev1.CompletionNote{Text: "the task cannot call the client's tools", Reason: commonv1.ErrorReason_ERROR_REASON_UNSPECIFIED})
	}
	return nil
}

// goal returns the conversation as the goal of a task.
func (x *Exchange) goal() string {
	var b strings.Builder
	if only := x.Messages; x.Request.GetSystem() == "" && x.Request.GetOutputSchemaJson() == "" && len(only) == 1 && textOf(only[0]) != "" {
		return last(textOf(only[0]), maxGoal)
	}
	for _, m := range x.Messages {
		who := "User"
		if m.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
			who = "Assistant"
		}
		if text := textOf(m); text != "" {
			b.WriteString("\n\n" + who + ": " + text)
		}
	}
	head := "Continue this conversation: do what the user asked for last, and answer."
	if system := x.Request.GetSystem(); system != "" {
		head += " Instructions: " + last(system, maxInstructions)
	}
	if s := x.Request.GetOutputSchemaJson(); s != "" && len(s) <= maxInstructions {
		head += " The answer must be JSON of this schema: " + s
	}
	return head + last(b.String(), maxGoal)
}

// last returns the last characters of a text.
func last(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	runes := []rune(text)
	return "…" + string(runes[len(runes)-most:])
}

// textOf returns the texts of a message and the results in it.
func textOf(m *plannerv1.ModelMessage) string {
	var all []string
	for _, p := range m.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_Text:
			all = append(all, part.Text)
		case *plannerv1.ModelPart_ToolCall:
			all = append(all, "(calls "+part.ToolCall.GetName()+" with "+part.ToolCall.GetInputJson()+")")
		case *plannerv1.ModelPart_ToolResult:
			all = append(all, "(a tool's result: "+part.ToolResult.GetText()+")")
		}
	}
	return strings.Join(all, "\n")
}
