package chat

import (
	"cmp"
	"encoding/json"
	"slices"

	"pawl.dev/services/strictjson"

	"pawl.dev/executor-svc/internal/flow"
	chatv1 "pawl.dev/executor-svc/internal/flow/chat/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// phases are the phases in their order.
var phases = []string{"load_llm_tool", "prepare_context", "msg_type_classify", "msg_pre_deal", "msg_deal", "post_msg_deal"}

const (
	statusRunning   = "running"
	statusCompleted = "completed"
	statusError     = "error"

	userMessage   = "user_new_msg"
	agentMessage  = "agent_msg"
	callMessage   = "agent_toolcall_msg"
	resultMessage = "result_msg"
)

// enter begins the next phase.
func (r *rules) enter() {
	r.Phase++
	r.postProcess(statusRunning, "")
}

// leave completes the current phase.
func (r *rules) leave() { r.postProcess(statusCompleted, "") }

func (r *rules) postProcess(status, problem string) {
	n, chat := int(r.GetPhase()), r.chat()
	ended := n - 1
	if status == statusCompleted {
		ended = n
	}
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_Process{Process: &storagev1.ProcessNote{
		Phase: phases[n-1], Status: status, MsgType: r.GetMsgType(), LlmDecision: r.GetDecision(), ProcessSteps: phases[:ended],
		IsComplete: r.GetComplete(), Error: problem,
		AgentId: r.task.Head.GetAgentId(), AgentName: chat.GetAgentName(), AgentAvatar: chat.GetAgentAvatar(),
	}}})
}

// beginPhases begins load_llm_tool.
func (r *rules) beginPhases(l step.Lane) {
	r.enter()
	r.listTools(l)
}

// toolsLoaded ends load_llm_tool and begins prepare_context. It reports the servers that the task names and that cannot be used.
func (r *rules) toolsLoaded(l step.Lane, in flow.ToolsListed) {
	if call := in.Call; call != nil {
		l.State.Queue = []*storagev1.QueuedStep{{Step: step.NewStep(call), Problem: call.Problem}}
	}
	for _, s := range r.unusable(in.Tools) {
		e := cut(&storagev1.ErrorNote{ErrMsg: s.GetMessage(), Reason: s.GetReason()})
		r.Servers = append(r.Servers, &chatv1.Server{McpId: s.GetMcpId(), Status: serverFailed, Error: e})
		r.postError(s.GetMcpId(), e)
	}
	r.leave()
	r.enter()
	r.summarize(l)
}

// prepared ends prepare_context, classifies the message, and begins msg_pre_deal.
func (r *rules) prepared(l step.Lane, in flow.Summarized) {
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	if in.Text != "" {
		r.summary = &storagev1.TopicSummary{Agent: r.chat().GetAgent(), Text: in.Text, ToSeq: in.ToSeq}
	}
	r.leave()
	r.enter()
	r.MsgType = r.classify()
	r.leave()
	r.enter()
	switch queue := l.State.GetQueue(); {
	case len(queue) > 0:
		l.State.Queue = nil
		r.begin(l, queue[0])
	case r.GetMsgType() == agentMessage && r.chat().GetSender() == r.chat().GetAgent():
		r.Complete = true
		r.leave()
		r.postSilent("the agent wrote the message itself")
		l.Answered(flow.Answered{})
	default:
		r.deal(l)
	}
}

// classify returns the class of the message. A call comes first, so that the agent's own calls are not dropped.
func (r *rules) classify() string {
	switch chat := r.chat(); {
	case chat.GetCall() != nil:
		return callMessage
	case chat.GetFromAgent():
		return agentMessage
	}
	return userMessage
}

// callEnded continues msg_pre_deal after the message's call. The history holds the call's outcome.
func (r *rules) callEnded(l step.Lane) {
	r.MsgType = resultMessage
	r.deal(l)
}

// deal ends msg_pre_deal and begins msg_deal.
func (r *rules) deal(l step.Lane) {
	r.leave()
	r.enter()
	r.respond(l)
}

func (r *rules) respond(l step.Lane) {
	q := flow.Respond{MessageType: r.GetMsgType(), MustComplete: r.chat().GetRounds() >= maxRounds}
	for _, s := range r.GetServers() {
		q.Errors = append(q.Errors, errorText(s.GetMcpId(), s.GetError()))
	}
	l.Ask(phaseRespond, q)
}

// responded ends msg_deal and posts the next call or the reply.
func (r *rules) responded(l step.Lane, in flow.Responded) {
	if in.Err != nil {
		l.FailTask(in.Err)
		return
	}
	m := &storagev1.TopicMessage{Text: in.Text}
	if in.Call != nil && r.chat().GetRounds() < maxRounds {
		r.Decision = "continue"
		m.Rounds, m.EarlierTasks = r.chat().GetRounds()+1, append(slices.Clone(r.chat().GetEarlierTasks()), r.task.ID)
		m.ProcessSeq = cmp.Or(r.chat().GetProcessSeq(), r.chat().GetMessageSeq())
		m.ExtJson = r.ext(callFields(in))
	} else {
		r.Decision = "complete"
		replyWith(m, in.Gathered)
	}
	r.leave()
	r.enter()
	r.postMessage(m)
	r.Complete = r.GetDecision() == "complete"
	r.leave()
	l.OpenAnswer()
	l.Answered(flow.Answered{Text: in.Text, FullAnswer: in.Text})
}

// callFields returns the fields of `ext` that ask for the next call, with the result of the call before.
func callFields(in flow.Responded) map[string]any {
	server, name := flow.ToolName(in.Call.ToolID)
	params := json.RawMessage("{}") // for an input that is no object; the tool's schema then says what is missing
	if strictjson.Kind(in.Call.InputJSON) == "object" && json.Valid([]byte(in.Call.InputJSON)) {
		params = json.RawMessage(in.Call.InputJSON)
	}
	fields := map[string]any{"tool_call": map[string]any{
		"server_id": server, "tool_name": name, "params": params, "description": in.Call.Description,
	}}
	if in.Result != "" {
		fields["tool_result"] = in.Result
	}
	return fields
}
