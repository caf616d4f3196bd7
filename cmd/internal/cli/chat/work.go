package chat

import (
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// job is an agent's work on a message.
type job struct{ agent, message string }

// work knows which agents still work on messages that this command posted, and on messages that came of them.
type work struct {
	open      map[job]bool      // true: it waits for a person
	delegates map[job]string    // the agent to whom the work is delegated, before the message that says so
	waits     map[string]job    // by the message that asks
	silent    map[job]bool      // the agent decided to stay silent
	seqs      map[string]uint64 // of the messages, once they are known
	failed    bool              // some work ended without a reply or such a decision
}

func newWork() *work {
	return &work{open: map[job]bool{}, delegates: map[job]string{}, waits: map[string]job{}, silent: map[job]bool{}, seqs: map[string]uint64{}}
}

// posted adds a message of a person, which every agent of the topic considers.
func (w *work) posted(id string, agents []*conversationv1.Participant) {
	for _, p := range agents {
		w.open[job{p.GetName(), id}] = false
	}
}

// event takes note of an event.
func (w *work) event(ev *conversationv1.TopicEvent) {
	if m := ev.GetNewMessage(); m.GetAnsweredWaitId() != "" {
		if j, ours := w.waits[m.GetReplyTo()]; ours {
			w.open[j] = false
		}
		return
	}
	w.drop(ev)
	j := job{ev.GetAgent(), ev.GetMessageId()}
	if m := ev.GetNewMessage(); m != nil {
		w.seqs[m.GetId()] = m.GetSeq()
	}
	if _, ours := w.open[j]; !ours {
		return
	}
	switch e := ev.GetEvent().(type) {
	case *conversationv1.TopicEvent_AgentDecision:
		if to := e.AgentDecision.GetDelegateTo(); to != "" {
			w.delegates[j] = to
		}
		w.silent[j] = e.AgentDecision.GetKind() == conversationv1.AgentDecision_KIND_SILENT
	case *conversationv1.TopicEvent_AgentSilent:
		w.failed = w.failed || !w.silent[j]
		delete(w.open, j)
	case *conversationv1.TopicEvent_StreamDone:
		if e.StreamDone.GetError() != "" && !e.StreamDone.GetRestarts() {
			w.failed = true
			delete(w.open, j)
		}
	case *conversationv1.TopicEvent_NewMessage:
		w.message(j, e.NewMessage)
	}
}

// drop ends the work of an agent that has left, and the work on messages that were rolled back.
func (w *work) drop(ev *conversationv1.TopicEvent) {
	left, back := ev.GetParticipantLeft().GetParticipant(), ev.GetMessagesRolledBack()
	for j := range w.open {
		if left != nil && left.GetName() == j.agent || back != nil && w.seqs[j.message] > back.GetToSeq() {
			w.failed = true
			delete(w.open, j)
		}
	}
}

// message takes note of a message that an agent's work posted.
func (w *work) message(j job, m *conversationv1.Message) {
	ext := m.GetExt().GetFields()
	switch {
	case m.GetWait() != nil:
		w.open[j], w.waits[m.GetId()] = true, j
	case ext["mcp_error"] != nil: // the agent's reply explains it
	case ext["tool_call"] != nil:
		delete(w.open, j)
		w.open[job{j.agent, m.GetId()}] = false
	default:
		delete(w.open, j)
		if to := w.delegates[j]; to != "" {
			w.open[job{to, m.GetId()}] = false
		}
	}
}

// done reports whether no agent works, and whether some work waits for a person.
func (w *work) done() (done, waits bool) {
	for _, waiting := range w.open {
		if !waiting {
			return false, false
		}
		waits = true
	}
	return true, waits
}
