package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/llm"
	"pawl.dev/planner-svc/internal/prompt"
	"pawl.dev/planner-svc/internal/risk"
)

const (
	// unknownWindow is the assumed context window of models whose window is not known, in tokens.
	unknownWindow = 32_000
	// windowPercent is the share of the window that prompt and reply together may take by estimate.
	windowPercent = 80
	// keptSteps is the number of last steps that a prompt never summarizes, and always shows in full.
	keptSteps = 5
	// maxLines is how many older steps of a task with a plan are shown in one line each.
	maxLines = 100
	// minOutput and maxOutput bound how many bytes of a step's output are shown.
	minOutput, maxOutput = 1000, 16_000
)

// conversation is the prompt of a task: instructions and tools, the goal, and each step as a call with its result. It grows only at its end, so
// that each prompt of a task is the beginning of the next prompt, until old steps are summarized or outputs shortened.
type conversation struct {
	*session
	tools       *toolset
	inJSON      bool              // the model has no native tools: calls are JSON texts
	memory      *plannerv1.Memory // the summary that converse made; nil if none
	request     *llm.Request
	outputLimit int  // how many bytes of each step's output the request shows
	lastTry     bool // a reply that cannot be used is not corrected again
	ended       bool // the model was told that `done` excludes other calls
}

// converse renders the task's conversation. If it is longer than maxPrompt, converse first summarizes the oldest steps, which sets c.memory, and
// then shortens the outputs.
func (s *session) converse(ctx context.Context) (*conversation, error) {
	c := &conversation{session: s, tools: toolsOf(s), inJSON: !s.info.Tools}
	switch {
	case s.subtask != nil:
		c.tools.ending = ownTool(reflect, "Says what the subtask has reached, and ends it if it is done. It may also change the subtasks that have not started.")
	case !c.inJSON:
		c.tools.ending = ownTool(finish, "Ends the task with an answer although the goal, or a part of it, was not reached.")
	}
	for _, id := range s.subtask.GetToolIds() {
		c.tools.show(c.all.Lookup(id))
	}
	memory := s.tc.GetMemory()
	limit := s.outputBytes()
	for {
		c.render(memory, limit)
		history := s.tc.GetHistory()
		first := summarized(memory, history)
		switch {
		case tokensOf(c.request) <= s.maxPrompt():
			return c, nil
		case len(history)-first > keptSteps && !s.hasPlan:
			steps := history[first : len(history)-keptSteps]
			summary, err := s.summarize(ctx, memory.GetSummary(), s.digests(steps))
			if err != nil {
				return nil, err
			}
			memory = &plannerv1.Memory{Summary: summary, LastStepId: steps[len(steps)-1].GetStepId()}
			c.memory = memory
		case limit > minOutput:
			limit = max(limit/2, minOutput)
		case len(c.messages) > 0:
			c.dropMessages()
		default:
			return c, nil // nothing is left to cut; the provider may still accept it
		}
	}
}

// goalPage renders the goal, after the conversation that it belongs to and before the summary of old steps, which may be nil.
func (s *session) goalPage(memory *plannerv1.Memory) string {
	return prompt.Render("goal", &plannerv1.TaskContext{Goal: s.tc.GetGoal(), Language: s.tc.GetLanguage(), Rounds: s.tc.GetRounds(), Memory: memory, AgentName: s.tc.GetAgentName(),
		Speaker: s.tc.GetSpeaker(), Messages: s.messages, ConversationSummary: s.tc.GetConversationSummary()}, nil)
}

// dropMessages leaves the older half of the conversation's messages out of prompts.
func (s *session) dropMessages() { s.messages = s.messages[(len(s.messages)+1)/2:] }

// maxPrompt returns how many tokens a prompt may have so that the reply fits into the window too.
func (s *session) maxPrompt() int {
	return s.info.ContextWindow*windowPercent/100 - min(s.info.MaxTokens, s.info.ContextWindow/4)
}

// outputBytes returns how many bytes of each step's output are shown. It depends only on the model's window, not on the conversation.
func (s *session) outputBytes() int {
	return min(max(s.info.ContextWindow*15/100, minOutput), maxOutput)
}

// render sets c.request, with at most limit bytes of each step's output.
func (c *conversation) render(memory *plannerv1.Memory, limit int) {
	history, first := c.tc.GetHistory(), 0
	if !c.hasPlan {
		first = summarized(memory, history)
	}
	if first == 0 {
		memory = nil
	}
	r := &llm.Request{Messages: []*plannerv1.ModelMessage{llm.UserText(c.goalPage(memory))}}
	system := "system"
	if c.subtask != nil {
		system = "system_subtask"
		r.Messages = append(r.Messages, llm.UserText(prompt.Render("subtask", c.tc, c.subtask)))
	} else if c.inJSON {
		system = "system_json"
	}
	var listed []*plannerv1.ModelTool // in the system text
	if c.inJSON {
		listed = c.tools.modelTools(true)
	} else {
		r.Tools = c.tools.modelTools(false)
	}
	r.System = prompt.Render(system, c.tc, listed)
	if c.hasPlan && len(history) >= 2*keptSteps {
		// The number of full steps goes from keptSteps to 2*keptSteps-1 and back, so that most prompts begin with the one before.
		first = len(history) - keptSteps - len(history)%keptSteps
		r.Messages = append(r.Messages, llm.UserText(prompt.Render("older_steps", c.tc, history[max(0, first-maxLines):first])))
	}
	for i, e := range history[first:] {
		r.Messages = append(r.Messages, c.step(first+i, e, prompt.Result(c.tc, e, limit))...)
	}
	r.CacheHere = []int{len(r.Messages) - 3, len(r.Messages) - 1} // the first index is negative in a short prompt
	c.request, c.outputLimit = r, limit
}

// step renders a finished step as the model's call and its result.
func (c *conversation) step(i int, e *plannerv1.HistoryEntry, result string) []*plannerv1.ModelMessage {
	in, err := strictjson.ParseObject(e.GetInputJson())
	if err != nil {
		in = &strictjson.Object{}
	}
	level := ""
	if t := c.all.Find(e.GetToolId()); t != nil {
		level = risk.Name(risk.Assess(prompt.LangOf(c.tc), catalog.NewTool(t), in).GetLevel())
	}
	args, prefix := &strictjson.Object{}, "pawl_"
	if c.inJSON {
		args.Set("tool", strictjson.Quote(Alias(e.GetToolId())))
		prefix = ""
	}
	args.Set(prefix+"why", strictjson.Quote(e.GetDescription()))
	if level != "" {
		args.Set(prefix+"risk", strictjson.Quote(level))
	}
	if c.inJSON {
		args.Set("input", in.String())
		return []*plannerv1.ModelMessage{llm.AssistantText(`{"calls":[` + args.String() + `]}`), llm.UserText(result)}
	}
	for _, k := range in.Keys() {
		v, _ := in.Get(k)
		args.Set(k, v)
	}
	call := &plannerv1.ModelToolCall{Id: fmt.Sprintf("call_%d", i+1), Name: Alias(e.GetToolId()), InputJson: args.String()}
	failed := e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS
	return []*plannerv1.ModelMessage{
		llm.Message(plannerv1.ModelRole_MODEL_ROLE_ASSISTANT, llm.Call(call)),
		llm.Message(plannerv1.ModelRole_MODEL_ROLE_USER, llm.Result(&plannerv1.ModelToolResult{CallId: call.GetId(), Text: result, IsError: failed})),
	}
}

// summaryTokens bounds a summary, in tokens.
const summaryTokens = 1500

// SummarizeMemory summarizes the steps that the context's memory does not cover, and the request's messages; with a context share, the conversation.
func (m *Model) SummarizeMemory(ctx context.Context, req *plannerv1.SummarizeMemoryRequest) (*plannerv1.SummarizeMemoryResponse, error) {
	s := m.session(ctx, req.GetContext())
	if share := req.GetContextShare(); share > 0 {
		return s.summarizeConversation(ctx, share, int(req.GetKeepLast()))
	}
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

// summarized returns how many steps of the history the memory covers; 0 if the history does not hold the memory's last step.
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

// digest renders a step as text, with at most limit bytes of its output.
func (s *session) digest(e *plannerv1.HistoryEntry, limit int) string {
	return prompt.Line(fmt.Sprintf("%s: %s %s", e.GetStepId(), e.GetToolId(), e.GetInputJson())) + "\n" + prompt.Result(s.tc, e, limit) + "\n\n"
}

// summarize adds texts to a summary, which may be empty, and returns the new summary. If the texts do not fit into one prompt, it makes several
// model calls.
func (s *session) summarize(ctx context.Context, summary string, texts []string) (string, error) {
	goal := prompt.Render("goal", &plannerv1.TaskContext{Goal: s.tc.GetGoal(), Language: s.tc.GetLanguage()}, nil)
	for len(texts) > 0 {
		n, tokens := 1, estimate(texts[0])
		for ; n < len(texts) && tokens+estimate(texts[n]) <= s.maxPrompt()*3/4; n++ {
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
			return "", s.unusableReply(1, "the summary is empty", reply)
		}
	}
	return summary, nil
}

// messageText renders a message of a conversation, fenced as data.
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
