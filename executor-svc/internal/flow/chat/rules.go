package chat

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/flow"
	chatv1 "pawl.dev/executor-svc/internal/flow/chat/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	phaseBegin       = storagev1.Phase_PHASE_BEGIN
	phaseDecide      = storagev1.Phase_PHASE_DECIDE
	phaseListTools   = storagev1.Phase_PHASE_LIST_TOOLS
	phaseSelectTools = storagev1.Phase_PHASE_SELECT_TOOLS
	phaseSummarize   = storagev1.Phase_PHASE_SUMMARIZE
	phaseRespond     = storagev1.Phase_PHASE_RESPOND
	phaseAnswer      = storagev1.Phase_PHASE_ANSWER
)

const (
	// maxServers is how many servers a task uses in rounds.
	maxServers = 3
	// maxRounds is how many times tools of a server are selected, and how many messages re-enter the flow in phases.
	maxRounds = 10
	// callTime is how long a call may take, since a person answered its newest question, if it asked any.
	callTime = 60 * time.Second
	// maxBrokenReplies is how many replies may break off because the planner was lost.
	maxBrokenReplies = 3
)

// rules are the rules of the flow for one input.
type rules struct {
	*chatv1.State
	task    *flow.Task
	posts   []*storagev1.TopicFact
	summary *storagev1.TopicSummary
}

var _ step.Rules = (*rules)(nil)

func (r *rules) chat() *storagev1.Chat { return r.task.Head.GetChat() }

// Kind implements step.Rules.
func (*rules) Kind() string { return Kind }

// Apply implements step.Rules.
func (r *rules) Apply(l step.Lane, in flow.Input) bool {
	switch in := in.(type) {
	case flow.Decided:
		r.decided(l, in)
	case flow.ToolsListed:
		r.toolsListed(l, in)
	case flow.ToolsSelected:
		r.toolsSelected(l, in)
	case flow.Summarized:
		r.summarized(l, in)
	case flow.Responded:
		r.responded(l, in)
	case flow.Text:
		r.postChunk(in.Text)
		l.AddText(in.Text)
	case flow.Answered:
		r.answered(l, in)
	default:
		return false
	}
	return true
}

// Resume implements step.Rules. A reply that broke off is started again.
func (r *rules) Resume(l step.Lane) {
	switch p := l.State.GetPhase(); p {
	case phaseBegin:
		r.receive(l)
	case phaseDecide:
		l.Ask(p, flow.Decide{})
	case phaseListTools:
		r.listTools(l)
	case phaseSelectTools:
		l.Ask(p, flow.SelectTools{McpID: l.State.GetSubtaskId()})
	case phaseSummarize:
		r.summarize(l)
	case phaseRespond:
		r.respond(l)
	case phaseAnswer:
		r.reply(l)
	}
}

// receive begins the work on the message.
func (r *rules) receive(l step.Lane) {
	l.Changed()
	l.Named(flow.Name(l.Task.Head.GetGoal()), &storagev1.RiskNote{})
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_AgentReceived{AgentReceived: true}})
	if !r.chat().GetDecide() {
		r.think(l)
		return
	}
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_AgentDeciding{AgentDeciding: true}})
	l.Ask(phaseDecide, flow.Decide{})
}

// decided continues as the planner decided. A message cannot be delegated to an agent that must not get it, and a delegated one is not ignored; the agent replies then.
func (r *rules) decided(l step.Lane, in flow.Decided) {
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	d := &storagev1.AgentDecision{Kind: in.Kind, Reason: in.Reason}
	switch in.Kind {
	case conversationv1.AgentDecision_KIND_SILENT:
		if r.chat().GetFromAgent() { // the message was delegated to this agent
			d.Kind = conversationv1.AgentDecision_KIND_REPLY
		}
	case conversationv1.AgentDecision_KIND_ASK_HUMAN:
		if in.Question == "" {
			d.Kind = conversationv1.AgentDecision_KIND_REPLY
		}
	case conversationv1.AgentDecision_KIND_DELEGATE:
		if d.DelegateTo = in.DelegateTo; !slices.Contains(r.chat().GetOtherAgents(), in.DelegateTo) {
			d.Kind, d.DelegateTo = conversationv1.AgentDecision_KIND_REPLY, ""
		}
	default:
		d.Kind = conversationv1.AgentDecision_KIND_REPLY
	}
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_AgentDecision{AgentDecision: d}})
	switch d.Kind {
	case conversationv1.AgentDecision_KIND_SILENT:
		r.postSilent(in.Reason)
		l.Answered(flow.Answered{})
	case conversationv1.AgentDecision_KIND_ASK_HUMAN:
		r.say(l, &storagev1.TopicMessage{Text: in.Question})
	case conversationv1.AgentDecision_KIND_DELEGATE:
		r.say(l, &storagev1.TopicMessage{
			Text: "@" + in.DelegateTo + " " + l.Task.Head.GetGoal(), Mentions: []string{in.DelegateTo}, DelegateTo: in.DelegateTo,
			PassedBy: append(slices.Clone(r.chat().GetPassedBy()), r.chat().GetAgent()),
		})
	default:
		r.think(l)
	}
}

// say ends the task with a message that is complete at once.
func (r *rules) say(l step.Lane, m *storagev1.TopicMessage) {
	r.postMessage(m)
	l.OpenAnswer()
	l.Answered(flow.Answered{Text: m.GetText(), FullAnswer: m.GetText()})
}

// think begins the work on a reply.
func (r *rules) think(l step.Lane) {
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_AgentThinking{AgentThinking: true}})
	if r.chat().GetPhases() {
		r.beginPhases(l)
	} else {
		r.listTools(l)
	}
}

func (r *rules) listTools(l step.Lane) {
	q := flow.ListTools{MaxServers: maxServers}
	if r.chat().GetPhases() {
		q.MaxServers = 0
	}
	l.Ask(phaseListTools, q)
}

func (r *rules) toolsListed(l step.Lane, in flow.ToolsListed) {
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	l.AddFact(&storagev1.Fact{Kind: &storagev1.Fact_ToolsLoaded{ToolsLoaded: in.Tools}})
	if r.chat().GetPhases() {
		r.toolsLoaded(l, in)
	} else {
		r.useServers(l, in)
	}
}

// begin makes a call in the lane.
func (r *rules) begin(l step.Lane, q *storagev1.QueuedStep) {
	l.State.MaxRunTime = callTime.Nanoseconds()
	l.Begin(q.GetStep(), q.GetProblem())
}

// endCall forgets the lane's call, which has ended.
func endCall(l step.Lane) {
	l.State.Step = nil
	l.State.MaxRunTime, l.State.RunTime, l.State.RunSince = 0, 0, 0
}

// timeoutError returns the error of a call that was stopped because it took too long.
func timeoutError(toolID string) *storagev1.ErrorNote {
	return &storagev1.ErrorNote{
		ErrMsg: fmt.Sprintf("%s gave no result within %d seconds", toolID, int(callTime.Seconds())), Reason: commonv1.ErrorReason_ERROR_REASON_TIMEOUT,
	}
}

// Observe implements step.Rules.
func (*rules) Observe(step.Lane, *storagev1.ActiveStep, string) {}

// StepEnded implements step.Rules.
func (r *rules) StepEnded(l step.Lane, s *storagev1.ActiveStep, _ *flow.Planned) {
	endCall(l)
	if r.chat().GetPhases() {
		r.callEnded(l)
		return
	}
	server := r.server(l)
	server.Called, server.Error = true, nil
	r.next(l)
}

// Recover implements step.Rules. The planner sees a failed call when it selects tools again. A person is asked for what only a person can give:
// a permission, or parameters if every call is confirmed.
func (*rules) Recover(l step.Lane, s *storagev1.ActiveStep, e *storagev1.ErrorNote, o commonv1.Outcome) executorv1.Recovery {
	confirm, limits := l.Task.Head.GetConfirm(), l.Task.Head.GetLimits()
	switch class := flow.ClassOf(e); {
	case o == commonv1.Outcome_OUTCOME_UNKNOWN || l.SpentRunTime() != "" || s.GetAttempt() >= limits.GetMaxAttempts():
	case class == executorv1.ErrorClass_ERROR_CLASS_PERMISSION && e.GetReason() != commonv1.ErrorReason_ERROR_REASON_TOOL_EXECUTION_FAILED:
		if confirm != executorv1.Confirm_CONFIRM_NEVER {
			return executorv1.Recovery_RECOVERY_ASK
		}
	case flow.InputMayHelp(e) && (confirm == executorv1.Confirm_CONFIRM_ALWAYS || confirm == executorv1.Confirm_CONFIRM_UNSPECIFIED):
		return executorv1.Recovery_RECOVERY_ASK
	}
	return executorv1.Recovery_RECOVERY_CONTINUE
}

// StepFailed implements step.Rules.
func (r *rules) StepFailed(l step.Lane, s *storagev1.ActiveStep) {
	l.Checkpoint.ErrorCount++
	e := s.GetError()
	if l.SpentRunTime() != "" {
		e = timeoutError(s.GetToolId())
	}
	endCall(l)
	if !r.chat().GetPhases() {
		r.callFailed(l, e)
		return
	}
	server, _ := flow.ToolName(s.GetToolId())
	r.postError(server, cut(e))
	r.callEnded(l)
}

// Rejected implements step.Rules: the agent goes on without the refused call.
func (r *rules) Rejected(l step.Lane, reason, waitID string) {
	l.Go()
	if reason != step.CancelledByUser {
		reason = step.CancelledByUser + ": " + reason
	}
	e := &storagev1.ErrorNote{ErrMsg: reason, Reason: commonv1.ErrorReason_ERROR_REASON_REJECTED}
	l.FailWaitingStep(l.State.GetStep(), e, waitID, executorv1.Recovery_RECOVERY_CONTINUE)
	endCall(l)
	if r.chat().GetPhases() {
		r.callEnded(l)
		return
	}
	l.State.Queue = nil
	r.next(l)
}

// WaitExpired implements step.Rules.
func (*rules) WaitExpired(l step.Lane, e *storagev1.ErrorNote) { l.FailTask(e) }

// Stopped implements step.Rules.
func (r *rules) Stopped(l step.Lane, reason string) {
	spent, toolID := l.SpentRunTime() != "" && !l.State.GetCancelRequested(), l.State.GetStep().GetToolId()
	endCall(l)
	switch server, _ := flow.ToolName(toolID); {
	case r.chat().GetPhases():
		if spent {
			r.postError(server, timeoutError(toolID))
		}
		r.callEnded(l)
	case spent:
		r.failServer(l, timeoutError(toolID))
	default:
		r.endServer(l, executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED, reason)
	}
}

// PlanApproved implements step.Rules. The flow has no plan that a person could approve.
func (*rules) PlanApproved(l step.Lane, _ *storagev1.Approve) {
	l.Refuse(fmt.Errorf("the %s flow has no plan to approve", Kind))
}

// CancelSubtask implements step.Rules: it cancels the work with a server.
func (r *rules) CancelSubtask(d *step.Draft, id, reason string) {
	i := slices.IndexFunc(r.GetServers(), func(s *chatv1.Server) bool { return s.GetMcpId() == id })
	if i < 0 {
		d.Refuse(step.NoSubtaskError(id))
		return
	}
	for _, l := range d.Lanes() {
		if l.State.GetSubtaskId() == id {
			l.Schedule(flow.Abandon{})
			l.Cancel(reason)
			return
		}
	}
	if d.Unchanged(); r.GetServers()[i].GetStatus() != executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED {
		d.Refuse(errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_STATE_TRANSITION,
			"the work with the server %q has already ended", id))
	}
}

// reply lets the planner write the reply, also in place of one that broke off.
func (r *rules) reply(l step.Lane) {
	r.breakOff("the reply broke off and begins again", true)
	r.Messages++
	r.Reply = r.GetMessages()
	l.BeginAnswer("")
}

// answered posts the reply as a message and ends the task. If the planner was lost in the middle, the reply begins again.
func (r *rules) answered(l step.Lane, in flow.Answered) {
	if in.Text != "" {
		r.postChunk(in.Text)
		l.AddText(in.Text)
		in.Text = ""
	}
	switch shown := l.Checkpoint.GetAnswerBytes() > 0; {
	case in.Err != nil && shown && r.GetBrokenReplies() < maxBrokenReplies && flow.ClassOf(in.Err) == executorv1.ErrorClass_ERROR_CLASS_RETRYABLE:
		r.BrokenReplies++
		r.reply(l)
		return
	case in.Err != nil:
		l.Answered(in)
		return
	case in.FullAnswer == "" && len(in.Media) == 0:
		r.Reply = 0
		r.postSilent("the model gave no reply")
		l.Answered(flow.Answered{})
		return
	}
	id := r.messageID(r.GetReply())
	r.postStreamDone("", false)
	r.postMessage(replyWith(&storagev1.TopicMessage{Id: id, Text: in.FullAnswer}, in.Gathered))
	l.Answered(flow.Answered{FullAnswer: in.FullAnswer})
}
