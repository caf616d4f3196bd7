package chat

import (
	"context"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// errQuit ends the command.
var errQuit = ui.Exit(ui.Done)

const help = `  /agents              the participants
  /files               the media of the conversation
  /interrupt [AGENT]   stop what an agent does; without AGENT, what all do
  /rollback [MESSAGE]  let the messages after one no longer count; without MESSAGE, your last one and all after it
  /quit                leave (Ctrl-D); agents go on
  //...                a message that begins with /
`

// command runs a command: its name and its argument.
func (t *talk) command(ctx context.Context, words []string) error {
	arg := ""
	if len(words) > 1 {
		arg = strings.TrimPrefix(words[1], "@")
	}
	switch words[0] {
	case "/help":
		t.u.Eprintf("%s", help)
	case "/agents":
		for _, p := range t.topic.GetParticipants() {
			t.u.Eprintf("  %s\n", participantText(p))
		}
	case "/files":
		return t.files(ctx)
	case "/interrupt":
		return t.interrupt(ctx, arg)
	case "/rollback":
		return t.rollback(ctx, arg)
	case "/quit":
		return errQuit
	default:
		return ui.Usagef("there is no command %s", words[0]).Then("/help lists the commands; // begins a message with /")
	}
	return nil
}

// messages returns all messages that count, oldest first.
func (t *talk) messages(ctx context.Context) ([]*conversationv1.Message, error) {
	list, err := discover.All(ctx, t.s.Topics.ListMessages, &conversationv1.ListMessagesRequest{TopicId: t.topic.GetId(), OldestFirst: true})
	return list.GetMessages(), err
}

func (t *talk) files(ctx context.Context) error {
	messages, err := t.messages(ctx)
	if err == nil && !slices.ContainsFunc(messages, func(m *conversationv1.Message) bool { return len(m.GetMedia()) > 0 }) {
		t.u.Note("no files")
	}
	for _, m := range messages {
		for _, media := range m.GetMedia() {
			t.u.Eprintf("  %s\n", ui.Line(m.GetSender()+": "+mediaText(media)))
		}
	}
	return err
}

// interrupt cancels what an agent does, or, without a name, what all agents do.
func (t *talk) interrupt(ctx context.Context, name string) error {
	stopped := 0
	for _, p := range agents(t.topic) {
		if name != "" && p.GetName() != name {
			continue
		}
		res, err := t.s.Topics.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: t.topic.GetId(), Name: p.GetName()})
		if err != nil {
			return err
		}
		stopped += len(res.GetTaskIds())
	}
	t.u.Note("%s told to stop", ui.Plural(stopped, "task"))
	return nil
}

// rollback rolls the topic back to a message, or, without an id, to the one before the newest message of a person.
func (t *talk) rollback(ctx context.Context, id string) error {
	if id == "" {
		messages, err := t.messages(ctx)
		if err != nil {
			return err
		}
		at := len(messages) - 1
		for at >= 0 && (messages[at].GetFromAgent() || messages[at].GetAnsweredWaitId() != "") {
			at--
		}
		if at < 0 {
			return ui.Errorf("there is no message to roll back")
		}
		if at > 0 {
			id = messages[at-1].GetId()
		}
	}
	res, err := t.s.Topics.RollbackTopic(ctx, &conversationv1.RollbackTopicRequest{TopicId: t.topic.GetId(), ToMessageId: id})
	if err == nil {
		t.u.Note("%s no longer count", ui.Plural(int(res.GetMessageCount()), "message"))
	}
	return err
}
