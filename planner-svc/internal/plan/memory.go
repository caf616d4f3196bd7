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
	history, memory := s.tc.GetHistory(), s.tc.GetMemory()
	texts := s.digests(history[summarized(memory, history):])
	for _, message := range req.GetMessages() {
		texts = append(texts, messageText(message))
	}
	summary, err := s.summarize(ctx, memory.GetSummary(), texts)
	if err != nil {
		return nil, err
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

// digests renders steps as texts.
func (s *session) digests(steps []*plannerv1.HistoryEntry) (texts []string) {
	for _, e := range steps {
		texts = append(texts, s.digest(e, min(s.outputBytes(), 2*minOutput)))
	}
	return texts
}

// digest renders a step as text.
func (s *session) digest(e *plannerv1.HistoryEntry, most int) string {
	return prompt.Line(fmt.Sprintf("%s: %s %s", e.GetStepId(), e.GetToolId(), e.GetInputJson())) + "\n" + prompt.Result(s.tc, e, most) + "\n\n"
}

// summarize returns the summary of texts that continue an earlier summary, which may be empty. Texts that do not fit into one prompt go into several.
func (s *session) summarize(ctx context.Context, summary string, texts []string) (string, error) {
	goal := prompt.Render("goal", &plannerv1.TaskContext{Goal: s.tc.GetGoal(), Language: s.tc.GetLanguage()}, nil)
	for len(texts) > 0 {
		n, tokens := 1, estimate(texts[0])
		for ; n < len(texts) && tokens+estimate(texts[n]) <= s.budget()*3/4; n++ {
			tokens += estimate(texts[n])
		}
		text := strings.Join(texts[:n], "")
		if texts = texts[n:]; summary != "" {
			text = prompt.Render("summary_so_far", s.tc, summary) + "\n\n" + text
		}
		r := &llm.Request{System: prompt.Render("summarize", s.tc, nil), Messages: []*plannerv1.ModelMessage{llm.UserText(goal + "\n\n" + text)}, MaxTokens: summaryTokens}
		reply, err := s.generate(ctx, r, nil)
		if err != nil {
			return "", err
		}
		if summary = strings.TrimSpace(reply.Text); summary == "" {
			return "", s.unusable(1, "the summary is empty", reply)
		}
	}
	return summary, nil
}

// messageText renders a message of a conversation as data.
func messageText(message *plannerv1.ModelMessage) string {
	var parts []string
	for _, p := range message.GetParts() {
		text := p.GetText() + p.GetToolResult().GetText()
		if c := p.GetToolCall(); c != nil {
			text = c.GetName() + " " + c.GetInputJson()
		} else if media := p.GetImage().GetMimeType() + p.GetAudio().GetMimeType(); media != "" {
			text = "[" + media + "]"
		}
		parts = append(parts, text)
	}
	role := "user"
	if message.GetRole() == plannerv1.ModelRole_MODEL_ROLE_ASSISTANT {
		role = "assistant"
	}
	return role + ":\n" + prompt.Fence(strings.Join(parts, "\n")) + "\n\n"
}
