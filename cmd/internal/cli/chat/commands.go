package chat

import (
	"cmp"
	"context"
	"slices"
	"strconv"
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
  /rollback [N]        let the last N messages of people (1), and all after them, no longer count
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

// typedCommand is a command that was typed at a question.
type typedCommand struct {
	words []string
	done  chan struct{} // is closed when the command has run
}

// commandAtQuestion lets run execute a line that is a command, and reports whether it is one. Other lines that begin with / are answers, such as paths.
func (t *talk) commandAtQuestion(ctx context.Context, line string) bool {
	c := typedCommand{strings.Fields(line), make(chan struct{})}
	if len(c.words) == 0 || !slices.Contains([]string{"/help", "/agents", "/files", "/interrupt", "/rollback", "/quit"}, c.words[0]) {
		return false
	}
	select {
	case t.commands <- c:
		<-c.done
	case <-ctx.Done():
	}
	return true
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
	all := agents(t.topic)
	if name != "" {
		all = slices.DeleteFunc(all, func(p *conversationv1.Participant) bool { return p.GetName() != name })
		if len(all) == 0 {
			return ui.Errorf("there is no agent @%s in the topic", name).Then("/agents lists the participants")
		}
	}
	for _, p := range all {
		res, err := t.s.Topics.InterruptAgent(ctx, &conversationv1.InterruptAgentRequest{TopicId: t.topic.GetId(), Name: p.GetName()})
		if err != nil {
			return err
		}
		stopped += len(res.GetTaskIds())
	}
	t.u.Note("%s told to stop", ui.Plural(stopped, "task"))
	return nil
}

// rollback rolls the topic back to before the last n messages of people; one if count is empty.
func (t *talk) rollback(ctx context.Context, count string) error {
	n, err := strconv.Atoi(cmp.Or(count, "1"))
	if err != nil || n < 1 {
		return ui.Usagef("%q is no number of messages", count).Then("/rollback 2 goes back to before the last two messages of people")
	}
	messages, err := t.messages(ctx)
	if err != nil {
		return err
	}
	at := len(messages)
	for ; n > 0; n-- {
		for at--; at >= 0 && (messages[at].GetFromAgent() || messages[at].GetAnsweredWaitId() != ""); at-- {
		}
		if at < 0 {
			return ui.Errorf("there are not so many messages to roll back")
		}
	}
	req := &conversationv1.RollbackTopicRequest{TopicId: t.topic.GetId(), All: at == 0}
	if at > 0 {
		req.ToMessageId = messages[at-1].GetId()
	}
	res, err := t.s.Topics.RollbackTopic(ctx, req)
	if err == nil {
		t.u.Note("from %s on, %s no longer count", quote(messages[at]), ui.Plural(int(res.GetMessageCount()), "message"))
	}
	return err
}

// quote returns the beginning of a message.
func quote(m *conversationv1.Message) string {
	const columns = 40
	return strconv.Quote(ui.Fit(ui.Line(m.GetText()), columns))
}
