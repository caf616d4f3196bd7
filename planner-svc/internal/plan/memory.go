package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
)

// summaryTokens is the longest summary.
const summaryTokens = 1500

// SummarizeMemory summarizes old steps, and messages of a conversation behind them.
func (m *Model) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	s := m.session(req.GetContext())
	history := s.tc.GetHistory()
	memory, err := s.compact(ctx, s.tc.GetMemory(), history[summarized(s.tc.GetMemory(), history):])
	if err != nil {
		return nil, err
	}
	summary := memory.GetSummary()
	var batch strings.Builder
	for i, message := range req.GetMessages() {
		batch.WriteString(messageText(message))
		if last := i == len(req.GetMessages())-1; last || estimate(batch.String()) > s.budget()/2 {
			if summary, err = s.summarize(ctx, summary, batch.String()); err != nil {
				return nil, err
			}
			batch.Reset()
		}
	}
	return &plannerv1.SummarizeMemoryResponse{Summary: summary, Usage: s.usage()}, nil
}

// summarized returns how many steps of the history the memory covers; none if it is about a step that is not there.
func summarized(memory *plannerv1.Memory, history []*plannerv1.HistoryEntry) int {
	if memory == nil {
		return 0
	}
	return 1 + slices.IndexFunc(history, func(e *plannerv1.HistoryEntry) bool { return e.GetStepId() == memory.GetLastStepId() })
}

// compact summarizes steps, together with what was summarized before. Steps that do not fit into one prompt go into several.
func (s *session) compact(ctx context.Context, memory *plannerv1.Memory, steps []*plannerv1.HistoryEntry) (*plannerv1.Memory, error) {
	summary := memory.GetSummary()
	for len(steps) > 0 {
		var batch strings.Builder
		n := 0
		for _, e := range steps {
			text := s.digest(e, min(s.outputBytes(), 2*minOutput))
			if n > 0 && estimate(batch.String())+estimate(text) > s.budget()*3/4 {
				break
			}
			batch.WriteString(text)
			n++
		}
		var err error
		if summary, err = s.summarize(ctx, summary, batch.String()); err != nil {
			return nil, err
		}
		memory = &plannerv1.Memory{Summary: summary, LastStepId: steps[n-1].GetStepId()}
		steps = steps[n:]
	}
	return memory, nil
}

// digest renders a step as text.
func (s *session) digest(e *plannerv1.HistoryEntry, most int) string {
	return prompt.Line(fmt.Sprintf("%s: %s %s", e.GetStepId(), e.GetToolId(), e.GetInputJson())) + "\n" + s.prompts.Result(s.tc, e, most) + "\n\n"
}

// summarize returns the summary of a text that continues an earlier summary, which may be empty.
func (s *session) summarize(ctx context.Context, earlier, text string) (string, error) {
	goal := s.prompts.Render("goal", &plannerv1.TaskContext{Goal: s.tc.GetGoal(), Language: s.tc.GetLanguage()}, nil)
	if earlier != "" {
		text = s.renderPrompt("summary_so_far", earlier) + "\n\n" + text
	}
	r := &llm.Request{System: s.renderPrompt("summarize", nil), Messages: []*plannerv1.ModelMessage{llm.UserText(goal + "\n\n" + text)}, MaxTokens: summaryTokens}
	reply, err := s.generate(ctx, r, nil)
	if err != nil {
		return "", err
	}
	summary := strings.TrimSpace(reply.Text)
	if summary == "" {
		return "", s.unusable(1, "the summary is empty", reply)
	}
	return summary, nil
}

// messageText renders a message of a conversation as data.
func messageText(message *plannerv1.ModelMessage) string {
	var parts []string
	for _, p := range message.GetParts() {
		switch part := p.GetPart().(type) {
		case *plannerv1.ModelPart_Text:
			parts = append(parts, part.Text)
		case *plannerv1.ModelPart_ToolCall:
			parts = append(parts, part.ToolCall.GetName()+" "+part.ToolCall.GetInputJson())
		case *plannerv1.ModelPart_ToolResult:
			parts = append(parts, part.ToolResult.GetText())
		case *plannerv1.ModelPart_Image:
			parts = append(parts, "[image "+part.Image.GetMimeType()+"]")
		case *plannerv1.ModelPart_Audio:
			parts = append(parts, "[audio "+part.Audio.GetMimeType()+"]")
		}
	}
	role := "user"
	if message.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
		role = "assistant"
	}
	return role + ":\n" + prompt.Fence(strings.Join(parts, "\n")) + "\n\n"
}
