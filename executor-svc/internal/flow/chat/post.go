package chat

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// interrupted is the error of a reply that a person interrupted.
const interrupted = "interrupted"

// post adds a fact for the topic.
func (r *rules) post(f *storagev1.TopicFact) {
	f.Agent, f.MessageId, f.TaskId = r.chat().GetAgent(), r.chat().GetMessageId(), r.task.ID
	r.posts = append(r.posts, f)
}

// messageID names the n-th message of the task.
func (r *rules) messageID(n uint32) string { return fmt.Sprintf("%s/%d", r.task.ID, n) }

// postMessage posts a message of the agent, with the id of the running reply if one runs.
func (r *rules) postMessage(m *storagev1.TopicMessage) {
	if m.Id == "" {
		r.Messages++
		m.Id = r.messageID(r.GetMessages())
	}
	m.Sender, m.FromAgent, m.ReplyTo = r.chat().GetAgent(), true, r.chat().GetMessageId()
	if m.PassedBy == nil {
		m.PassedBy = r.chat().GetPassedBy()
	}
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_Message{Message: m}})
}

func (r *rules) postSilent(reason string) {
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_AgentSilent{AgentSilent: reason}})
}

// postStreamDone ends the running reply. restarts says that the reply begins again.
func (r *rules) postStreamDone(problem string, restarts bool) {
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_StreamDone{StreamDone: &storagev1.StreamDone{
		ReplyId: r.messageID(r.GetReply()), Size: r.task.State.GetAnswerBytes(), Error: problem, Restarts: restarts,
	}}})
	r.Reply = 0
}

// postChunk posts a piece of the running reply, which begins where the recorded text ends.
func (r *rules) postChunk(text string) {
	r.post(&storagev1.TopicFact{Kind: &storagev1.TopicFact_StreamChunk{StreamChunk: &storagev1.StreamChunk{
		ReplyId: r.messageID(r.GetReply()), Offset: r.task.State.GetAnswerBytes(), Text: text,
	}}})
}

// breakOff ends the running reply, if any of it was shown.
func (r *rules) breakOff(problem string, restarts bool) bool {
	if r.GetReply() == 0 || r.task.State.GetAnswerBytes() == 0 {
		return false
	}
	r.postStreamDone(problem, restarts)
	return true
}

// postWaits posts a message for each wait that was opened after the first n and that a participant can answer. The last line of a question about a call has the tool and the
// input.
func (r *rules) postWaits(n uint32) {
	for _, w := range r.task.State.GetWaits() {
		if flow.WaitNumber(w.GetId()) <= n || w.GetKind() == executorv1.WaitKind_WAIT_KIND_PAUSE {
			continue
		}
		note := &storagev1.WaitNote{
			Id: w.GetId(), Kind: w.GetKind(), Message: w.GetMessage(), ParamsSchemaJson: w.GetParamsSchemaJson(), Hash: w.GetHash(),
			CreateTime: w.GetCreateTime(), Deadline: w.GetDeadline(), Url: w.GetUrl(),
		}
		text := w.GetMessage()
		if s := flow.ActiveStep(r.task.State, w.GetOrdinal()); s != nil {
			note.StepId, note.ToolId, note.Risk, note.InputJson = flow.StepID(s.GetOrdinal()), s.GetToolId(), s.GetRisk(), s.GetInputJson()
			text = cmp.Or(text, s.GetDescription(), s.GetToolId())
			if k := w.GetKind(); k == executorv1.WaitKind_WAIT_KIND_APPROVAL || k == executorv1.WaitKind_WAIT_KIND_OUTCOME {
				text += "\n" + s.GetToolId() + " " + cutText(s.GetInputJson())
			}
		}
		r.postMessage(&storagev1.TopicMessage{Text: text, Wait: note})
	}
}

// postEnd tells the topic that the task has failed or was cancelled. f is the task's last fact.
func (r *rules) postEnd(f *storagev1.Fact) {
	var reason, problem string
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_FlowCancel:
		reason, problem = interrupted+": "+strings.TrimPrefix(k.FlowCancel, interrupted+" "), interrupted
	case *storagev1.Fact_FlowFailed:
		reason, problem = k.FlowFailed.GetErrMsg(), k.FlowFailed.GetErrMsg()
	default:
		return
	}
	if r.GetPhase() != 0 && !r.GetComplete() {
		r.postProcess(statusError, problem)
	}
	if !r.breakOff(problem, false) {
		r.postSilent(reason)
	}
}

// postError reports a failed server as a message, which the agent's reply explains (B11).
func (r *rules) postError(server string, e *storagev1.ErrorNote) {
	r.postMessage(&storagev1.TopicMessage{
		Text: errorText(server, e),
		ExtJson: r.ext(map[string]any{"auto_trigger": true, "mcp_error": map[string]string{
			"class": classOf(e), "server": server, "message": e.GetErrMsg(),
		}}),
	})
}

func errorText(server string, e *storagev1.ErrorNote) string {
	return "The MCP server " + server + " failed: " + e.GetErrMsg()
}

// replyWith adds to a reply what the calls gave: the media, and in `ext` how the calls ended and how many media did not fit.
func replyWith(m *storagev1.TopicMessage, g flow.Gathered) *storagev1.TopicMessage {
	m.Media = g.Media
	fields := map[string]any{}
	if len(g.Results) > 0 {
		fields["tool_results"] = g.Results
	}
	if g.MediaOmitted > 0 {
		fields["media_omitted"] = g.MediaOmitted
	}
	if len(fields) > 0 {
		m.ExtJson = toJSON(fields)
	}
	return m
}

// ext returns the JSON of a message's `ext` that is to be worked on like this task's message.
func (r *rules) ext(fields map[string]any) string {
	h := r.task.Head
	if h.GetModel() != "" {
		fields["model"] = h.GetModel()
	}
	if n := len(h.GetMcpIds()); n > 0 && n <= maxServers {
		fields["mcp_servers"] = h.GetMcpIds()
	}
	fields["use_new_flow"] = r.chat().GetPhases()
	return toJSON(fields)
}

// toJSON returns the JSON of a value that always encodes.
func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(raw)
}

// cut shortens an error for the state and the topic.
func cut(e *storagev1.ErrorNote) *storagev1.ErrorNote {
	return &storagev1.ErrorNote{ErrMsg: cutText(e.GetErrMsg()), Reason: e.GetReason()}
}

func cutText(text string) string {
	const limit = 1000
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
