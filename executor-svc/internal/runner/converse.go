package runner

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/toolcall"
)

const (
	// contextShare is the share of the model's context that a conversation may take if the agent sets none, and keepMessages is how many of the
	// last messages are never summarized.
	contextShare = 0.8
	keepMessages = 5
	// resultBytes bounds the result of a call in a message that asks for another call.
	resultBytes = 4000
	// maxMedia and mediaBytes bound the media of a message, and maxResults and errorBytes the calls that its ext tells of.
	maxMedia   = 20
	mediaBytes = 3 << 20
	maxResults = 50
	errorBytes = 200
)

// addMemory adds to a context what the task knows of earlier turns, or of the topic whose message it answers.
func (s *Session) addMemory(c *plannerv1.TaskContext) {
	chat := s.head.GetChat()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, turn := range s.memory.Turns {
		c.Rounds = append(c.Rounds, &plannerv1.Round{Question: turn.Question, Answer: turn.Answer})
	}
	c.AgentName, c.Speaker, c.ConversationSummary = chat.GetAgent(), chat.GetSender(), s.memory.Summary
	for _, m := range s.memory.Messages {
		c.Messages = append(c.Messages, &plannerv1.ChatMessage{Sender: m.Sender, FromSelf: m.FromSelf, Text: m.Text})
	}
}

// askAboutMessage returns the Run that answers a question of a task that answers a message; nil if the question is of another kind.
func (s *Session) askAboutMessage(t *flow.Task, log *history.Log, l *storagev1.Lane, q flow.Question) Run {
	switch q := q.(type) {
	case flow.Decide:
		return s.decide(s.context(t, log, l))
	case flow.ListTools:
		return s.listServers(s.context(t, log, l), q)
	case flow.SelectTools:
		return s.selectTools(s.subtaskContext(t, log, l), q.McpID)
	case flow.Summarize:
		return s.summarize(s.subtaskContext(t, log, l))
	case flow.SummarizeConversation:
		return s.summarizeConversation(s.context(t, log, l))
	case flow.Respond:
		return s.respond(s.context(t, log, l), log, q)
	}
	return nil
}

var decisions = map[plannerv1.Decision]conversationv1.AgentDecision_Kind{
	plannerv1.Decision_DECISION_REPLY:     conversationv1.AgentDecision_KIND_REPLY,
	plannerv1.Decision_DECISION_SILENT:    conversationv1.AgentDecision_KIND_SILENT,
	plannerv1.Decision_DECISION_ASK_HUMAN: conversationv1.AgentDecision_KIND_ASK_HUMAN,
	plannerv1.Decision_DECISION_DELEGATE:  conversationv1.AgentDecision_KIND_DELEGATE,
}

// decide returns the Run that asks whether and how the agent responds to the message.
func (s *Session) decide(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.Decided
		if tools, err := s.toolset(ctx); err == nil {
			tools.giveTo(c)
		}
		res, err := askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.DecideResponse, error) {
			chat := s.head.GetChat()
			return s.r.planner.Decide(ctx, &plannerv1.DecideRequest{Context: c, Sender: chat.GetSender(), Agents: chat.GetOtherAgents()}, o...)
		})
		out.Kind, out.Reason = decisions[res.GetDecision()], validUTF8(res.GetReason())
		out.Question, out.DelegateTo = validUTF8(res.GetQuestion()), validUTF8(res.GetDelegateTo())
		if err != nil {
			out.Err = errorNote(fmt.Errorf("deciding whether to respond: %w", err))
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// listServers returns the Run that lists the tools and chooses the servers to use.
func (s *Session) listServers(c *plannerv1.TaskContext, q flow.ListTools) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.ToolsListed{Tools: &storagev1.ToolsLoaded{}}
		tools, err := s.toolset(ctx)
		if err == nil {
			tools.giveTo(c)
			out.Tools = tools.loaded
			out.Servers = tools.servers()
			if q.MaxServers > 0 && len(out.Servers) > q.MaxServers {
				out.Servers, err = s.chooseServers(ctx, c, q.MaxServers, &out.Usage)
			}
		}
		if call := s.head.GetChat().GetCall(); call != nil && err == nil {
			out.Call = s.askedCall(ctx, c, call)
		}
		if err != nil {
			out.Err = errorNote(fmt.Errorf("listing the tools: %w", err))
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// servers returns the servers that have tools.
func (t *toolset) servers() (ids []string) {
	for _, l := range t.usable {
		if len(l.Catalog.GetTools()) > 0 {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// chooseServers returns the servers of the tools that the planner would call first.
func (s *Session) chooseServers(ctx context.Context, c *plannerv1.TaskContext, most int, usage **storagev1.Usage) ([]string, error) {
	res, err := s.askTools(ctx, c, usage)
	var ids []string
	for _, p := range res.GetSteps() {
		if id, _ := flow.ToolName(p.GetToolId()); !slices.Contains(ids, id) && len(ids) < most && p.GetToolId() != flow.Final {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func (s *Session) askTools(ctx context.Context, c *plannerv1.TaskContext, usage **storagev1.Usage) (*plannerv1.SelectToolsResponse, error) {
	return askPlanner(ctx, s, c, usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.SelectToolsResponse, error) {
		return s.r.planner.SelectTools(ctx, &plannerv1.SelectToolsRequest{Context: c}, o...)
	})
}

// askedCall returns the step of the call that the message asks for.
func (s *Session) askedCall(ctx context.Context, c *plannerv1.TaskContext, call *storagev1.ChatCall) *flow.PlannedStep {
	p := &plannerv1.PlannedStep{
		ToolId: call.GetToolId(), InputJson: call.GetInputJson(), Description: cmp.Or(call.GetDescription(), "A message asks for this call."),
	}
	p.Risk = &commonv1.Risk{Reason: p.GetDescription()}
	tools, _, err := s.findTool(ctx, c, p.GetToolId())
	if err == nil {
		if step := tools.propose(p); step != nil {
			return step
		}
	}
	step := plannedStep(p)
	step.Problem = errorNote(cmp.Or(err, toolGone(p.GetToolId()))).GetErrMsg()
	return step
}

// selectTools returns the Run that asks for the next calls of a server's tools.
func (s *Session) selectTools(c *plannerv1.TaskContext, mcpID string) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.ToolsSelected
		tools, err := s.toolsetWith(ctx, mcpID)
		if err == nil {
			tools.giveTo(c, mcpID)
			var res *plannerv1.SelectToolsResponse
			res, err = s.askTools(ctx, c, &out.Usage)
			for _, p := range res.GetSteps() {
				if p.GetToolId() != flow.Final {
					out.Steps = append(out.Steps, tools.proposeCall(p, mcpID, c.GetHistory()))
				}
			}
		}
		if err != nil {
			out.Err = errorNote(fmt.Errorf("selecting tools of %s: %w", mcpID, err))
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// proposeCall returns a call that the planner selected. A call of a tool that the server does not have, or that has failed in the same way too
// often, has a Problem.
func (t *toolset) proposeCall(p *plannerv1.PlannedStep, mcpID string, history []*plannerv1.HistoryEntry) *flow.PlannedStep {
	step := t.propose(p)
	if id, _ := flow.ToolName(p.GetToolId()); step == nil || id != mcpID && !p.GetFromHistory() {
		step = plannedStep(p)
		step.Problem = fmt.Sprintf("the server %s has no tool %q", mcpID, step.ToolID)
	}
	step.Problem = cmp.Or(step.Problem, t.repeatedFailure(history, step))
	return step
}

// summarize returns the Run that summarizes the steps of a context. Without a summary, the steps speak for themselves, so an error is only logged.
func (s *Session) summarize(c *plannerv1.TaskContext) Run {
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.Summarized
		res, err := s.askSummary(ctx, &plannerv1.SummarizeMemoryRequest{Context: c}, &out.Usage)
		if err != nil {
			s.log.WarnContext(ctx, "the planner could not summarize the calls", "error", err)
		}
		out.Text = validUTF8(res.GetSummary())
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

func (s *Session) askSummary(ctx context.Context, req *plannerv1.SummarizeMemoryRequest, usage **storagev1.Usage) (*plannerv1.SummarizeMemoryResponse, error) {
	return askPlanner(ctx, s, req.GetContext(), usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.SummarizeMemoryResponse, error) {
		req.Context = c
		return s.r.planner.SummarizeMemory(ctx, req, o...)
	})
}

// summarizeConversation returns the Run that summarizes the older messages if the conversation does not fit into the agent's share of the context.
func (s *Session) summarizeConversation(c *plannerv1.TaskContext) Run {
	share := cmp.Or(s.head.GetChat().GetContextShare(), contextShare)
	return func(ctx context.Context, emit func(flow.Input)) {
		var out flow.Summarized
		if len(c.GetMessages()) > keepMessages {
			req := &plannerv1.SummarizeMemoryRequest{Context: c, ContextShare: share, KeepLast: keepMessages}
			res, err := s.askSummary(ctx, req, &out.Usage)
			if err != nil {
				out.Err = errorNote(fmt.Errorf("summarizing the conversation: %w", err))
			}
			if n := int(res.GetCoveredMessages()); n > 0 && n <= len(c.GetMessages()) {
				out.Text = validUTF8(res.GetSummary())
				out.ToSeq = s.setSummary(out.Text, n)
			}
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// setSummary replaces the first n messages of the conversation with a summary, and returns the seq of the last of them.
func (s *Session) setSummary(text string, n int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq := s.memory.Messages[n-1].Seq
	s.memory.Summary, s.memory.Messages = text, s.memory.Messages[n:]
	return seq
}

// respond returns the Run that asks for one further call or the whole reply. The planner gets the calls that the process has made so far, also in earlier tasks.
func (s *Session) respond(c *plannerv1.TaskContext, log *history.Log, q flow.Respond) Run {
	s.mu.Lock()
	earlier := s.memory.Steps
	s.mu.Unlock()
	newest, steps := newestStep(log), ended(append(slices.Clip(earlier), log.Entries...))
	c.History = nil
	for i := range steps {
		h := historyEntry(&steps[i], results[steps[i].Status])
		h.StepId = flow.StepID(uint32(i + 1))
		if steps[i].IsStored() {
			s.noteStored(h, &steps[i])
		}
		c.History = append(c.History, h)
	}
	return func(ctx context.Context, emit func(flow.Input)) {
		out := flow.Responded{Result: s.resultOf(ctx, newest), Gathered: s.gather(ctx, steps)}
		tools, err := s.toolset(ctx)
		if err == nil {
			tools.giveTo(c)
			var res *plannerv1.RespondResponse
			res, err = askPlanner(ctx, s, c, &out.Usage, func(ctx context.Context, c *plannerv1.TaskContext, o ...grpc.CallOption) (*plannerv1.RespondResponse, error) {
				return s.r.planner.Respond(ctx, &plannerv1.RespondRequest{Context: c, MessageType: q.MessageType, MustComplete: q.MustComplete, Errors: q.Errors}, o...)
			})
			if out.Text = validUTF8(res.GetText()); res.GetDecision() == plannerv1.RespondDecision_RESPOND_DECISION_CONTINUE && res.GetNextCall() != nil {
				out.Call = plannedStep(res.GetNextCall())
			}
		}
		if err != nil {
			out.Err = errorNote(fmt.Errorf("responding to the message: %w", err))
		}
		if ctx.Err() == nil {
			emit(out)
		}
	}
}

// newestStep returns the newest step that has ended; nil if there is none. Actions read copies of entries, because the history changes meanwhile.
func newestStep(log *history.Log) *history.Entry {
	for _, e := range slices.Backward(log.Entries) {
		if e.Ended() {
			newest := *e
			return &newest
		}
	}
	return nil
}

// ended returns copies of the steps that have ended.
func ended(steps []*history.Entry) (all []history.Entry) {
	for _, e := range steps {
		if e.Ended() {
			all = append(all, *e)
		}
	}
	return all
}

// resultOf returns the text of a step, cut; "" for nil.
func (s *Session) resultOf(ctx context.Context, e *history.Entry) string {
	if e == nil {
		return ""
	}
	reader := &outputReader{s: s}
	defer reader.done()
	text, err := reader.text(ctx, e)
	if err != nil {
		s.log.WarnContext(ctx, "the result of a step is left out", "error", err)
	}
	return strings.Clone(cut(text, resultBytes))
}

// gather returns what ended steps gave, as far as it fits into a message.
func (s *Session) gather(ctx context.Context, steps []history.Entry) (g flow.Gathered) {
	reader := &outputReader{s: s}
	defer reader.done()
	size := 0
	for i := range steps {
		e := &steps[i]
		result := flow.ToolResult{Tool: e.ToolID, Success: e.Status == executorv1.StepStatus_STEP_STATUS_SUCCESS}
		if !result.Success {
			result.Error = cut(e.Error.GetErrMsg(), errorBytes)
		}
		g.Results = append(g.Results, result)
		raw, err := reader.output(ctx, e)
		if err != nil {
			s.log.WarnContext(ctx, "the media of a step are left out", "error", err)
		}
		var out toolcall.Result
		if json.Unmarshal([]byte(raw), &out) != nil {
			continue
		}
		for _, m := range out.Media {
			stored := storedMedia(m)
			if n := len(stored.GetDataBase64()); len(g.Media) < maxMedia && size+n <= mediaBytes {
				g.Media, size = append(g.Media, stored), size+n
			} else {
				g.MediaOmitted++
			}
		}
	}
	g.Results = g.Results[max(0, len(g.Results)-maxResults):]
	return g
}

// cut returns at most the first n bytes of a text.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// storedMedia returns media of an output as media of a message.
func storedMedia(m toolcall.Media) *storagev1.Media {
	kind, _, _ := strings.Cut(m.MimeType, "/")
	if m.Type == "image" || m.Type == "audio" {
		kind = m.Type
	}
	if kind != "image" && kind != "audio" && kind != "video" {
		kind = "file"
	}
	data := m.Data
	if len(data) == 0 {
		data = []byte(m.Text)
	}
	return &storagev1.Media{Type: kind, MimeType: m.MimeType, Url: m.URI, DataBase64: base64.StdEncoding.EncodeToString(data), Name: m.Name}
}
