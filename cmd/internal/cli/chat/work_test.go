package chat

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// said is a message that an agent's work posted.
func said(agent, about string, m *conversationv1.Message) *conversationv1.TopicEvent {
	return &conversationv1.TopicEvent{Agent: agent, MessageId: about, Event: &conversationv1.TopicEvent_NewMessage{NewMessage: m}}
}

func with(key string, value *structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{key: value}}
}

// The command ends once each agent has answered, and knows of work that waits for a person.
func TestWork(t *testing.T) {
	silent := func(agent, about string) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Agent: agent, MessageId: about, Event: &conversationv1.TopicEvent_AgentSilent{AgentSilent: &conversationv1.AgentSilent{}}}
	}
	ended := func(agent, problem string) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Agent: agent, MessageId: "m", Event: &conversationv1.TopicEvent_StreamDone{StreamDone: &conversationv1.StreamDone{Error: problem}}}
	}
	restarts := ended("a", "the planner was lost")
	restarts.GetStreamDone().Restarts = true
	decided := &conversationv1.TopicEvent{Agent: "a", MessageId: "m", Event: &conversationv1.TopicEvent_AgentDecision{AgentDecision: &conversationv1.AgentDecision{DelegateTo: "b"}}}
	reply := &conversationv1.Message{Id: "r"}
	question := &conversationv1.Message{Id: "q", Wait: &executorv1.Wait{}}
	answer := said("", "", &conversationv1.Message{Id: "x", ReplyTo: "q", AnsweredWaitId: "w"})
	quiet := &conversationv1.TopicEvent{Agent: "a", MessageId: "m", Event: &conversationv1.TopicEvent_AgentDecision{AgentDecision: &conversationv1.AgentDecision{Kind: conversationv1.AgentDecision_KIND_SILENT}}}
	left := &conversationv1.TopicEvent{Event: &conversationv1.TopicEvent_ParticipantLeft{ParticipantLeft: &conversationv1.ParticipantLeft{
		Participant: &conversationv1.Participant{Name: "a"},
	}}}
	back := func(to uint64) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Event: &conversationv1.TopicEvent_MessagesRolledBack{MessagesRolledBack: &conversationv1.MessagesRolledBack{ToSeq: to}}}
	}
	const open, waits, done, failed = "open", "waits", "done", "failed"
	for name, tc := range map[string]struct {
		agents []string
		events []*conversationv1.TopicEvent
		want   string
	}{
		"no agent":         {nil, nil, done},
		"nothing yet":      {[]string{"a"}, nil, open},
		"a reply":          {[]string{"a"}, []*conversationv1.TopicEvent{ended("a", ""), said("a", "m", reply)}, done},
		"another's reply":  {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "other", reply), silent("b", "m")}, open},
		"one of two":       {[]string{"a", "b"}, []*conversationv1.TopicEvent{silent("a", "m")}, open},
		"both":             {[]string{"a", "b"}, []*conversationv1.TopicEvent{quiet, silent("a", "m"), said("b", "m", reply)}, done},
		"fails at once":    {[]string{"a"}, []*conversationv1.TopicEvent{silent("a", "m")}, failed},
		"begins again":     {[]string{"a"}, []*conversationv1.TopicEvent{restarts}, open},
		"broken off":       {[]string{"a"}, []*conversationv1.TopicEvent{ended("a", "interrupted")}, failed},
		"a question":       {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "m", question)}, waits},
		"its answer":       {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "m", question), answer}, open},
		"delegated":        {[]string{"a"}, []*conversationv1.TopicEvent{decided, said("a", "m", reply)}, open},
		"delegate replies": {[]string{"a"}, []*conversationv1.TopicEvent{decided, said("a", "m", reply), said("b", "r", &conversationv1.Message{Id: "s"})}, done},
		"an error":         {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "m", &conversationv1.Message{Id: "e", Ext: with("mcp_error", structpb.NewStructValue(&structpb.Struct{}))})}, open},
		"explained": {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "m", &conversationv1.Message{Id: "e", Ext: with("mcp_error", structpb.NewBoolValue(true))}),
			said("a", "m", reply)}, done},
		"has left":    {[]string{"a", "b"}, []*conversationv1.TopicEvent{left, said("b", "m", reply)}, failed},
		"rolled back": {[]string{"a"}, []*conversationv1.TopicEvent{said("", "", &conversationv1.Message{Id: "m", Seq: 4}), back(3)}, failed},
		"kept":        {[]string{"a"}, []*conversationv1.TopicEvent{said("", "", &conversationv1.Message{Id: "m", Seq: 4}), back(4)}, open},
		"a call":      {[]string{"a"}, []*conversationv1.TopicEvent{said("a", "m", &conversationv1.Message{Id: "c", Ext: with("tool_call", structpb.NewStructValue(&structpb.Struct{}))})}, open},
	} {
		w := newWork()
		var all []*conversationv1.Participant
		for _, name := range tc.agents {
			all = append(all, &conversationv1.Participant{Name: name})
		}
		w.posted("m", all)
		for _, ev := range tc.events {
			w.event(ev)
		}
		got := open
		if ended, waiting := w.done(); waiting {
			got = waits
		} else if ended {
			got = done
			if w.failed {
				got = failed
			}
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
