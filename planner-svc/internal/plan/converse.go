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
	// unknownWindow is assumed of models whose context window is not known, in tokens.
	unknownWindow = 32_000
	// windowPercent is how much of the window prompt and reply may take by estimate (B13).
	windowPercent = 80
	// keptSteps is how many of the last steps are never summarized (B13).
	keptSteps = 5
	// minOutput and maxOutput bound how many bytes of a step's output are shown.
	minOutput, maxOutput = 1000, 16_000
)

// conversation is the prompt of a task: instructions and tools, the goal, and each step as a call with its result. It grows only at its end, so
// that each prompt of a task is the beginning of the next one, until old steps are summarized.
type conversation struct {
	m      *Model
	s      *session
	tools  *toolset
	inJSON bool // the model has no native tools: calls are JSON texts
	memory *plannerv1.Memory

	system   string
	messages []llm.Message
}

// converse renders the task's conversation. Beyond the token budget it summarizes the oldest steps first; memory is set then.
func (m *Model) converse(ctx context.Context, s *session) (*conversation, error) {
	c := &conversation{m: m, s: s, tools: toolsOf(s.tc, &m.indexes), inJSON: !s.info.Tools}
	memory := s.tc.GetMemory()
	most := s.outputBytes()
	for {
		if err := c.render(memory, most); err != nil {
			return nil, s.fail(err)
		}
		history := s.tc.GetHistory()
		first := summarized(memory, history)
		switch {
		case tokensOf(c.request()) <= s.budget():
			return c, nil
		case len(history)-first > keptSteps:
			var err error
			if memory, err = m.compact(ctx, s, memory, history[first:len(history)-keptSteps]); err != nil {
				return nil, err
			}
			c.memory = memory
		case most > minOutput:
			most = max(most/2, minOutput)
		default:
			return c, nil // the provider has the last word
		}
	}
}

// window returns the model's context window.
func (s *session) window() int {
	if s.info.ContextWindow > 0 {
		return s.info.ContextWindow
	}
	return unknownWindow
}

// budget returns how many tokens a prompt may have.
func (s *session) budget() int {
	return s.window()*windowPercent/100 - min(s.info.MaxTokens, s.window()/4)
}

// outputBytes returns how many bytes of each step's output are shown. It depends on the model alone.
func (s *session) outputBytes() int { return min(max(s.window()*15/100, minOutput), maxOutput) }

// summarized returns how many steps of the history the memory covers; none if it is about a step that is not there.
func summarized(memory *plannerv1.Memory, history []*plannerv1.HistoryEntry) int {
	if memory == nil {
		return 0
	}
	return 1 + slices.IndexFunc(history, func(e *plannerv1.HistoryEntry) bool { return e.GetStepId() == memory.GetLastStepId() })
}

// render makes the system text and the messages.
func (c *conversation) render(memory *plannerv1.Memory, most int) error {
	p, tc := c.m.prompts, c.s.tc
	first := summarized(memory, tc.GetHistory())
	head := &plannerv1.TaskContext{Goal: tc.GetGoal(), Language: tc.GetLanguage(), Rounds: tc.GetRounds()}
	if first > 0 {
		head.Memory = memory
	}
	goal, err := p.Render("goal", head, nil)
	if err != nil {
		return err
	}
	if err := c.renderSystem(); err != nil {
		return err
	}
	c.messages = []llm.Message{llm.UserText(goal)}
	for i, e := range tc.GetHistory()[first:] {
		result, err := p.Result(tc, e, most)
		if err != nil {
			return err
		}
		c.messages = append(c.messages, c.step(first+i, e, result)...)
	}
	for _, i := range []int{len(c.messages) - 1, len(c.messages) - 3} {
		if i >= 0 {
			c.messages[i].CacheHere = true
		}
	}
	return nil
}

func (c *conversation) renderSystem() (err error) {
	if c.inJSON {
		c.system, err = c.m.prompts.Render("system_json", c.s.tc, c.tools.native())
		return err
	}
	c.system, err = c.m.prompts.Render("system", c.s.tc, nil)
	return err
}

// step renders a finished step as the model's call and its result.
func (c *conversation) step(i int, e *plannerv1.HistoryEntry, result string) []llm.Message {
	in, err := strictjson.ParseObject(e.GetInputJson())
	if err != nil {
		in = &strictjson.Object{}
	}
	level := ""
	if t := c.tools.byAlias[Alias(e.GetToolId())]; t != nil {
		level = risk.Name(risk.Assess(prompt.LangOf(c.s.tc), catalog.NewTool(t), in).GetLevel())
	}
	if c.inJSON {
		call := &strictjson.Object{}
		call.Set("tool", strictjson.Quote(Alias(e.GetToolId())))
		call.Set("why", strictjson.Quote(e.GetDescription()))
		if level != "" {
			call.Set("risk", strictjson.Quote(level))
		}
		call.Set("input", in.String())
		return []llm.Message{llm.AssistantText(`{"calls":[` + call.String() + `]}`), llm.UserText(result)}
	}
	args := &strictjson.Object{}
	args.Set("pawl_why", strictjson.Quote(e.GetDescription()))
	if level != "" {
		args.Set("pawl_risk", strictjson.Quote(level))
	}
	for _, k := range in.Keys() {
		v, _ := in.Get(k)
		args.Set(k, v)
	}
	call := llm.ToolCall{ID: fmt.Sprintf("call_%d", i+1), Name: Alias(e.GetToolId()), Arguments: args.String()}
	failed := e.GetResult() != plannerv1.StepResult_STEP_RESULT_SUCCESS
	return []llm.Message{
		{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.CallPart, Call: call}}},
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.ResultPart, Result: llm.ToolResult{CallID: call.ID, Text: result, IsError: failed}}}},
	}
}

// request returns the conversation as a request.
func (c *conversation) request() *llm.Request {
	r := &llm.Request{System: c.system, Messages: slices.Clone(c.messages)}
	if !c.inJSON {
		r.Tools = c.tools.native()
	}
	return r
}

// compact summarizes steps, together with what was summarized before. Steps that do not fit into one prompt go into several.
func (m *Model) compact(ctx context.Context, s *session, memory *plannerv1.Memory, steps []*plannerv1.HistoryEntry) (*plannerv1.Memory, error) {
	summary := memory.GetSummary()
	for len(steps) > 0 {
		var batch strings.Builder
		n := 0
		for _, e := range steps {
			text, err := m.digest(s.tc, e, min(s.outputBytes(), 2*minOutput))
			if err != nil {
				return nil, s.fail(err)
			}
			if n > 0 && estimate(batch.String())+estimate(text) > s.budget()*3/4 {
				break
			}
			batch.WriteString(text)
			n++
		}
		var err error
		if summary, err = m.summarize(ctx, s, summary, batch.String()); err != nil {
			return nil, err
		}
		memory = &plannerv1.Memory{Summary: summary, LastStepId: steps[n-1].GetStepId()}
		steps = steps[n:]
	}
	return memory, nil
}

// digest renders a step as text.
func (m *Model) digest(tc *plannerv1.TaskContext, e *plannerv1.HistoryEntry, most int) (string, error) {
	result, err := m.prompts.Result(tc, e, most)
	if err != nil {
		return "", err
	}
	return prompt.Line(fmt.Sprintf("%s: %s %s", e.GetStepId(), e.GetToolId(), e.GetInputJson())) + "\n" + result + "\n\n", nil
}

// summarize returns the summary of a text that continues an earlier summary, which may be empty.
func (m *Model) summarize(ctx context.Context, s *session, earlier, text string) (string, error) {
	system, err := m.prompts.Render("summarize", s.tc, nil)
	if err != nil {
		return "", s.fail(err)
	}
	goal, err := m.prompts.Render("goal", &plannerv1.TaskContext{Goal: s.tc.GetGoal(), Language: s.tc.GetLanguage()}, nil)
	if err != nil {
		return "", s.fail(err)
	}
	if earlier != "" {
		page, err := m.prompts.Render("summary_so_far", s.tc, earlier)
		if err != nil {
			return "", s.fail(err)
		}
		text = page + "\n\n" + text
	}
	r := &llm.Request{System: system, Messages: []llm.Message{llm.UserText(goal + "\n\n" + text)}, MaxTokens: summaryTokens(s.info.MaxTokens)}
	reply, err := s.generate(ctx, r, nil)
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(reply.Text) == "" {
		return "", s.unusable(1, "the summary is empty")
	}
	return strings.TrimSpace(reply.Text), nil
}

func summaryTokens(most int) int {
	const enough = 1500
	if most <= 0 {
		return enough
	}
	return min(most, enough)
}
