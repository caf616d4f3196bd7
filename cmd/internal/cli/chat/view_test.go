package chat

import (
	"bytes"
	"testing"

	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// Replies are written as they come, each text once, also if two agents reply at the same time and if a person edits a line meanwhile.
func TestView(t *testing.T) {
	chunk := func(agent, reply, text string, offset uint64) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Agent: agent, Event: &conversationv1.TopicEvent_StreamChunk{StreamChunk: &conversationv1.StreamChunk{ReplyId: reply, Offset: offset, Text: text}}}
	}
	message := func(id, sender, text string) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Event: &conversationv1.TopicEvent_NewMessage{NewMessage: &conversationv1.Message{Id: id, Sender: sender, Text: text}}}
	}
	back := func(to string) *conversationv1.TopicEvent {
		return &conversationv1.TopicEvent{Event: &conversationv1.TopicEvent_MessagesRolledBack{MessagesRolledBack: &conversationv1.MessagesRolledBack{By: "ada", ToMessageId: to}}}
	}
	remarks := "pawl: @ada rolled back: the messages after \"One two three.\" no longer count\npawl: @ada rolled back: no message counts any longer\n" +
		"pawl: @ada rolled back to an earlier message: the messages after it no longer count\n"
	events := []*conversationv1.TopicEvent{
		message("mine", "ada", "Hello"), message("m", "bo", "Hi\x1b[2J"),
		chunk("a", "r", "One ", 0), chunk("b", "s", "Other", 0), chunk("a", "r", "two\nthree", 4), message("r", "a", "One two\nthree."), message("s", "b", "Other"),
		back("r"), back(""), back("unknown"),
	}
	want := "bo: Hi␛[2J\na: One two\nthree.\nb: Other\n"
	for _, byLine := range []bool{false, true} {
		var out, errs bytes.Buffer
		v := &view{u: &ui.UI{Out: &out, Err: &errs, Columns: func() int { return 80 }}, byLine: byLine, posted: map[string]bool{"mine": true}, quotes: map[string]string{}}
		for _, ev := range events {
			v.event(ev)
		}
		if out.String() != want || errs.String() != remarks {
			t.Errorf("by line %v: %q %q", byLine, &out, &errs)
		}
	}
}
