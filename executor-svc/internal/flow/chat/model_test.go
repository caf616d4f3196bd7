package chat

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// TestAnyOrder drives tasks through random outcomes, answers of people, pauses, timeouts, cancellations and crashes, and checks what the topic sees.
func TestAnyOrder(t *testing.T) { rapid.Check(t, anyOrder) }

func anyOrder(t *rapid.T) {
	m := &model{T: t}
	m.rig = newRig(t, func(h *storagev1.TaskHead) {
		h.Limits.MaxSteps = rapid.Uint32Range(1, 30).Draw(t, "steps")
		h.Limits.MaxRecoveries = 1000
		h.Limits.MaxModelCalls = rapid.SampledFrom([]uint32{0, 0, 20}).Draw(t, "model calls")
		h.Confirm = rapid.SampledFrom([]executorv1.Confirm{
			executorv1.Confirm_CONFIRM_ALWAYS, executorv1.Confirm_CONFIRM_BY_RISK, executorv1.Confirm_CONFIRM_NEVER,
		}).Draw(t, "confirm")
		h.McpIds = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z", "w"}), 0, 4, rapid.ID[string]).Draw(t, "servers")
		h.Chat.Decide, h.Chat.Phases = rapid.Bool().Draw(t, "decide"), rapid.Bool().Draw(t, "phases")
		h.Chat.Rounds = rapid.SampledFrom([]uint32{0, 9, 10}).Draw(t, "rounds")
		switch rapid.IntRange(0, 5).Draw(t, "message") {
		case 1:
			h.Chat.Call, h.Chat.FromAgent, h.Chat.Sender, h.Chat.Phases = &storagev1.ChatCall{ToolId: "x/look"}, true, "bob", true
		case 2:
			h.Chat.FromAgent, h.Chat.Sender = true, rapid.SampledFrom([]string{"bob", "carl"}).Draw(t, "sender")
		}
	})
	for range rapid.IntRange(1, 150).Draw(t, "inputs") {
		if state.Ended(m.task.State.GetStatus()) {
			break
		}
		m.step()
		m.check()
	}
	for n := 0; !state.Ended(m.task.State.GetStatus()); n++ { // without people who disturb it, it ends
		if n > 1000 {
			t.Fatalf("the task does not end: %v", m.task.State)
		}
		if m.calm(); len(m.pending) > 0 {
			m.outcome(0)
		}
		m.check()
	}
	m.checkEnd()
}

type model struct {
	*rapid.T
	*rig
}

func (m *model) Helper()                           { m.T.Helper() }
func (m *model) Fatal(args ...any)                 { m.T.Fatal(args...) }
func (m *model) Fatalf(format string, args ...any) { m.T.Fatalf(format, args...) }
func (m *model) Errorf(format string, args ...any) { m.T.Errorf(format, args...) }

func (m *model) step() {
	switch what := rapid.IntRange(0, 40).Draw(m.T, "what"); {
	case what == 0:
		m.crash()
	case what == 1:
		_ = m.command(&storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{}}})
	case what == 2:
		m.task.Now = m.task.Now.Add(rapid.SampledFrom([]time.Duration{time.Second, callTime}).Draw(m.T, "time"))
		m.must(0, flow.Timeout{})
	case what == 3 && rapid.IntRange(0, 3).Draw(m.T, "cancel") == 0:
		_ = m.command(&storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{}}})
	case what == 4:
		_ = m.command(&storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{SubtaskId: "x"}}})
	case len(m.pending) == 0 || what < 10:
		m.calm()
	default:
		m.outcome(rapid.IntRange(0, len(m.pending)-1).Draw(m.T, "which"))
	}
}

// calm answers the open waits, and ends a pause.
func (m *model) calm() {
	if m.task.State.GetPauseRequested() {
		_ = m.command(&storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}})
	}
	for _, w := range slices.Clone(m.task.State.GetWaits()) {
		if state.Ended(m.task.State.GetStatus()) {
			return
		}
		c := &storagev1.Command{Kind: &storagev1.Command_Reject{Reject: &storagev1.Reject{WaitId: w.GetId()}}}
		switch yes := rapid.Bool().Draw(m.T, "yes"); {
		case w.GetKind() == executorv1.WaitKind_WAIT_KIND_APPROVAL && yes:
			c = &storagev1.Command{Kind: &storagev1.Command_Approve{Approve: &storagev1.Approve{WaitId: w.GetId()}}}
		case w.GetKind() == executorv1.WaitKind_WAIT_KIND_OUTCOME && yes:
			c = &storagev1.Command{Kind: &storagev1.Command_Outcome{Outcome: &storagev1.SettleOutcome{
				WaitId: w.GetId(), Answer: &storagev1.SettleOutcome_Retry{Retry: true},
			}}}
		case w.GetKind() == executorv1.WaitKind_WAIT_KIND_PARAMS && yes:
			c = &storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{WaitId: w.GetId(), Supplied: &storagev1.Supplied{}}}}
		}
		if err := m.command(c); err != nil {
			m.Fatalf("%v: %v", w, err)
		}
	}
}

// outcome ends, or continues, the i-th running action.
func (m *model) outcome(i int) {
	a := m.pending[i]
	if ask, ok := a.Action.(flow.Ask); ok {
		if _, ok := ask.Question.(flow.Answer); ok && rapid.Bool().Draw(m.T, "more") {
			m.must(a.Lane, flow.Text{Text: rapid.SampledFrom([]string{"a", "bc", "déf"}).Draw(m.T, "text")})
			return
		}
	}
	m.pending = slices.Delete(m.pending, i, i+1)
	var e *storagev1.ErrorNote
	if rapid.IntRange(0, 7).Draw(m.T, "fails") == 0 {
		e = &storagev1.ErrorNote{ErrMsg: "failed", Reason: rapid.SampledFrom([]commonv1.ErrorReason{
			commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED,
			commonv1.ErrorReason_ERROR_REASON_PERMISSION_DENIED,
		}).Draw(m.T, "reason")}
	}
	if ask, ok := a.Action.(flow.Ask); ok {
		m.must(a.Lane, m.reply(ask.Question, e))
		return
	}
	s := flow.LaneOf(m.task.State, a.Lane).GetStep()
	in := flow.Called{
		Ordinal: s.GetOrdinal(), Attempt: s.GetAttempt(), Round: s.GetRound(), Err: e, Outcome: commonv1.Outcome_OUTCOME_KNOWN, Output: `{"message":"ok"}`,
	}
	if e != nil && rapid.Bool().Draw(m.T, "unknown") {
		in.Outcome, in.Lost = commonv1.Outcome_OUTCOME_UNKNOWN, rapid.Bool().Draw(m.T, "lost")
	}
	m.must(a.Lane, in)
}

// reply answers a question of the flow.
func (m *model) reply(q flow.Question, e *storagev1.ErrorNote) flow.Input {
	usage := &storagev1.Usage{ModelCalls: 1}
	switch q := q.(type) {
	case flow.Decide:
		kind := rapid.SampledFrom([]conversationv1.AgentDecision_Kind{1, 1, 1, 2, 3, 4}).Draw(m.T, "decision")
		return flow.Decided{Kind: kind, Question: "?", DelegateTo: "carl", Usage: usage}
	case flow.ListTools:
		in := flow.ToolsListed{Tools: &storagev1.ToolsLoaded{}}
		for _, id := range m.task.Head.GetMcpIds() {
			if rapid.IntRange(0, 5).Draw(m.T, "down") == 0 {
				in.Tools.Skipped = append(in.Tools.Skipped, &storagev1.Skipped{McpId: id, Message: "down"})
			} else {
				in.Servers = append(in.Servers, id)
			}
		}
		if m.task.Head.GetChat().GetCall() != nil {
			in.Call = planned("x/" + m.tool())
		}
		return in
	case flow.SelectTools:
		in := flow.ToolsSelected{Usage: usage}
		for range rapid.IntRange(0, 2).Draw(m.T, "calls") {
			p := planned(q.McpID + "/" + m.tool())
			if rapid.IntRange(0, 9).Draw(m.T, "bad") == 0 {
				p.Problem = "the text is missing"
			}
			in.Steps = append(in.Steps, p)
		}
		return in
	case flow.Summarize, flow.SummarizeConversation:
		return flow.Summarized{Text: "summary", ToSeq: 2, Usage: usage}
	case flow.Respond:
		in := flow.Responded{Text: "text", Usage: usage, Err: e}
		if rapid.Bool().Draw(m.T, "continue") {
			in.Call = planned("x/look")
		}
		return in
	case flow.Answer:
		full := m.shown() + "end"
		return flow.Answered{Text: "end", FullAnswer: full, Usage: usage, Err: e}
	case flow.Diagnose:
		return flow.Diagnosed{Ordinal: q.Ordinal, IsParamError: rapid.Bool().Draw(m.T, "param"), Usage: usage}
	case flow.Fill:
		return flow.Derived{Ordinal: q.Ordinal, Input: `{"filled":true}`, Usage: usage}
	case flow.RefreshTool:
		return flow.ToolRefreshed{Ordinal: q.Ordinal, Tool: &flow.Tool{}}
	}
	m.Fatalf("no answer to %T", q)
	return nil
}

func (m *model) tool() string { return rapid.SampledFrom([]string{"look", "write"}).Draw(m.T, "tool") }

// shown returns the text of the running reply.
func (m *model) shown() (text string) {
	for _, p := range m.posts {
		if p.GetStreamDone() != nil {
			text = ""
		}
		text += p.GetStreamChunk().GetText()
	}
	return text
}

// check checks what holds after each transition.
func (m *model) check() {
	if n := len(m.task.State.GetLanes()); n > 1+maxServers {
		m.Fatalf("%d lanes", n)
	}
	for _, s := range m.task.State.GetLanes() {
		if s.GetStep() != nil && s.GetSubtaskId() == "" && !m.task.Head.GetChat().GetPhases() {
			m.Fatal("a call in lane 0")
		}
	}
	seen, text, reply := map[string]bool{}, "", ""
	for i, p := range m.posts {
		if p.GetAgentReceived() != (i == 0) {
			m.Fatalf("the %d. post is %s", i+1, shortly(p))
		}
		switch {
		case p.GetStreamChunk() != nil:
			c := p.GetStreamChunk()
			if reply != "" && c.GetReplyId() != reply || c.GetOffset() != uint64(len(text)) || seen[c.GetReplyId()] {
				m.Fatalf("a gap: %s", m.all())
			}
			reply, text = c.GetReplyId(), text+c.GetText()
		case p.GetStreamDone() != nil:
			d := p.GetStreamDone()
			if reply != "" && d.GetReplyId() != reply || d.GetSize() != uint64(len(text)) {
				m.Fatalf("a reply ends wrongly: %s", m.all())
			}
			if d.GetError() == "" && (i+1 == len(m.posts) || m.posts[i+1].GetMessage().GetId() != d.GetReplyId() || m.posts[i+1].GetMessage().GetText() != text) {
				m.Fatalf("a reply without its message: %s", m.all())
			}
			if d.GetError() != "" {
				seen[d.GetReplyId()] = true
			}
			reply, text = "", ""
		case p.GetMessage() != nil:
			if id := p.GetMessage().GetId(); seen[id] || !strings.HasPrefix(id, "task/") {
				m.Fatalf("%s twice: %s", id, m.all())
			}
			seen[p.GetMessage().GetId()] = true
		}
	}
	m.checkPhases()
}

// checkPhases checks that the phases run in their order, each running and then completed or failed.
func (m *model) checkPhases() {
	var got []string
	for _, p := range m.posts {
		if n := p.GetProcess(); n != nil {
			got = append(got, n.GetPhase()+":"+n.GetStatus())
		}
	}
	for i, g := range got {
		want := fmt.Sprintf("%s:%s", phases[i/2], []string{statusRunning, statusCompleted}[i%2])
		if g != want && (i%2 == 0 || i != len(got)-1 || g != phases[i/2]+":"+statusError) {
			m.Fatalf("phases %v", got)
		}
	}
}

// checkEnd checks that the topic knows how the task ended.
func (m *model) checkEnd() {
	m.checkServersEnded()
	if len(m.pending) > 0 {
		m.Fatalf("after the end runs %v", m.pending)
	}
	last := m.posts[len(m.posts)-1]
	said := slices.ContainsFunc(m.posts, func(p *storagev1.TopicFact) bool {
		return p.GetMessage() != nil && p.GetMessage().GetWait() == nil && !strings.Contains(p.GetMessage().GetExtJson(), "mcp_error")
	})
	silent := slices.ContainsFunc(m.posts, func(p *storagev1.TopicFact) bool {
		return p.GetKind() != nil && strings.HasPrefix(shortly(p), "silent")
	})
	if broken := last.GetStreamDone().GetError() != "" && !last.GetStreamDone().GetRestarts(); !said && !silent && !broken || said && silent {
		m.Fatalf("the topic does not know how the task ended: %s", m.all())
	}
	ids := map[string]int{}
	for _, f := range m.facts {
		if f.GetSubtaskChanged() != nil && state.SubtaskEnded(f.GetSubtaskChanged().GetTo()) {
			if ids[f.GetSubtaskId()]++; ids[f.GetSubtaskId()] > 1 {
				m.Fatalf("the server %s ended twice", f.GetSubtaskId())
			}
		}
	}
}
