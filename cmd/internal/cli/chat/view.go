package chat

import (
	"cmp"
	"strings"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// view writes a topic's events for a person: messages to Out, remarks to Err. It writes one reply while it is streamed, and others once they are whole.
type view struct {
	u *ui.UI
	// byLine is set if text must be written in whole lines, because the person edits a line below it.
	byLine bool
	flags  string            // of commands that are named
	posted map[string]bool   // ids of messages that the person wrote here
	quotes map[string]string // the beginnings of messages, by their ids

	reply string // the id of the reply that is being written; "" if none
	held  string // the beginning of its next line, with byLine
	shown int    // bytes of it that came
}

// event writes an event.
func (v *view) event(ev *conversationv1.TopicEvent) {
	switch e := ev.GetEvent().(type) {
	case *conversationv1.TopicEvent_NewMessage:
		v.message(e.NewMessage)
		if e.NewMessage.GetWait() != nil {
			v.remark("it waits for an answer: %s", task.AnswerCommand(ev.GetTaskId(), e.NewMessage.GetWait(), v.flags))
		}
	case *conversationv1.TopicEvent_StreamChunk:
		v.chunk(ev.GetAgent(), e.StreamChunk)
	case *conversationv1.TopicEvent_StreamDone:
		if e.StreamDone.GetError() != "" {
			v.end(e.StreamDone.GetReplyId(), "")
			v.remark("@%s: the reply ended early: %s", ev.GetAgent(), e.StreamDone.GetError())
		}
	case *conversationv1.TopicEvent_AgentSilent:
		v.remark("@%s stays silent: %s", ev.GetAgent(), e.AgentSilent.GetReason())
	case *conversationv1.TopicEvent_AgentDecision:
		if to := e.AgentDecision.GetDelegateTo(); to != "" {
			v.remark("@%s leaves it to @%s: %s", ev.GetAgent(), to, e.AgentDecision.GetReason())
		}
	case *conversationv1.TopicEvent_MessagesRolledBack:
		v.rolledBack(e.MessagesRolledBack)
	case *conversationv1.TopicEvent_TopicUpdated:
		v.remark("@%s changed the topic: %s", e.TopicUpdated.GetBy(), title(&conversationv1.Topic{DisplayName: e.TopicUpdated.GetDisplayName(), Archived: e.TopicUpdated.GetArchived()}))
	case *conversationv1.TopicEvent_Participant:
		v.remark("%s", participantText(e.Participant))
	case *conversationv1.TopicEvent_ParticipantLeft:
		v.remark("@%s has left", e.ParticipantLeft.GetParticipant().GetName())
	case *conversationv1.TopicEvent_ProcessEvent:
		if e.ProcessEvent.GetStatus() == "error" {
			v.remark("@%s: %s failed: %s", ev.GetAgent(), e.ProcessEvent.GetPhase(), e.ProcessEvent.GetEventData().GetError())
		}
	}
}

func (v *view) rolledBack(e *conversationv1.MessagesRolledBack) {
	switch text, known := v.quotes[e.GetToMessageId()]; {
	case e.GetToMessageId() == "":
		v.remark("@%s rolled back: no message counts any longer", e.GetBy())
	case known:
		v.remark("@%s rolled back: the messages after %s no longer count", e.GetBy(), text)
	default:
		v.remark("@%s rolled back to an earlier message: the messages after it no longer count", e.GetBy())
	}
}

// message writes a message, or the rest of the reply that became it.
func (v *view) message(m *conversationv1.Message) {
	v.quotes[m.GetId()] = quote(m)
	switch call := m.GetExt().GetFields()["tool_call"].GetStructValue().GetFields(); {
	case v.posted[m.GetId()]:
		return
	case call != nil:
		v.remark("@%s calls %s", m.GetSender(), cmp.Or(call["tool_id"].GetStringValue(), call["tool_name"].GetStringValue()))
	case m.GetId() == v.reply:
		v.end(m.GetId(), m.GetText())
	default:
		v.u.Printf("%s %s\n", v.who(m.GetSender()), ui.Text(m.GetText()))
	}
	for _, media := range m.GetMedia() {
		v.remark("%s", mediaText(media))
	}
}

func (v *view) who(name string) string { return v.u.OutStyle().Bold(ui.Line(name) + ":") }

// chunk writes a piece of a reply, unless another reply is being written.
func (v *view) chunk(agent string, c *conversationv1.StreamChunk) {
	if v.reply == "" && c.GetOffset() == 0 {
		v.reply, v.shown = c.GetReplyId(), 0
		v.put(v.who(agent) + " ")
	}
	if c.GetReplyId() != v.reply {
		return
	}
	v.shown += len(c.GetText())
	v.put(ui.Text(c.GetText()))
}

// end writes the rest of a reply.
func (v *view) end(id, text string) {
	if id != v.reply {
		return
	}
	v.put(ui.Text(text[min(v.shown, len(text)):]))
	v.u.Printf("%s\n", v.held)
	v.reply, v.held = "", ""
}

// put writes a part of a line. With byLine, it holds the last line back until the line ends or is as wide as the terminal.
func (v *view) put(text string) {
	if !v.byLine {
		v.u.Printf("%s", text)
		return
	}
	v.held += text
	whole := strings.LastIndexByte(v.held, '\n') + 1
	if columns := v.u.OutColumns(); columns > 0 && ui.Width(v.held[whole:]) >= columns {
		whole = max(whole, strings.LastIndexByte(v.held, ' ')+1)
	}
	if whole > 0 {
		v.u.Printf("%s\n", strings.TrimRight(v.held[:whole], " \n"))
		v.held = v.held[whole:]
	}
}

// remark writes a line about what happens.
func (v *view) remark(format string, args ...any) {
	if v.reply != "" && !v.byLine {
		return // the reply's line is not whole
	}
	v.u.Note(format, args...)
}

// mediaText describes media on one line.
func mediaText(m *conversationv1.Media) string {
	where := cmp.Or(m.GetUrl(), ui.Bytes(int64(len(m.GetData()))))
	return strings.Join(strings.Fields(m.GetType()+" "+m.GetMimeType()+" "+m.GetName()+" "+where), " ")
}
