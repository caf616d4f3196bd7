package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"pawl.dev/cmd/internal/cli/task"
	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
)

// Cmd is `pawl chat`.
type Cmd struct {
	Topic string `arg:"" complete:"topic" optional:"" help:"The topic: its id, 4 or more characters of its beginning or end, its name, or last for the most recently active one: by its newest message or, without messages, its creation (default: last)."`
	Agent string `complete:"agent" placeholder:"ID" help:"Talk with this agent of yours: in your last topic with it, or in a new one."`
	New   bool   `help:"Begin a new topic with --agent."`
	Model string `complete:"model" placeholder:"NAME" help:"Answer your messages with this model (pawl models lists them; default: the agent's)."`

	task.FolderFlags
}

// Run holds a conversation: it posts the lines of standard input and shows what happens in the topic.
func (c *Cmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	topic, err := c.topic(ctx, s)
	if err != nil {
		return err
	}
	ext, folder, err := c.ext(ctx, u, s, topic)
	if err != nil {
		return err
	}
	restore, err := u.EditLines()
	if err != nil {
		return err
	}
	defer restore()
	t := &talk{u: u, s: s, topic: topic, ext: ext, folder: folder, work: newWork(), view: &view{u: u, flags: s.Flags(), byLine: u.InTTY, posted: map[string]bool{}, quotes: map[string]string{}}}
	if u.CanAsk() && !u.JSON {
		t.ask = &task.Asker{Prompter: u.Prompter()}
		t.ask.Alias, t.ask.Command = folder.TaskAlias, t.commandAtQuestion
		u.Note("topic %s %s: %s; /help explains", ui.ShortID(topic.GetId()), title(topic), strings.Join(names(topic), ", "))
		const shown = 10
		messages, err := last(ctx, s, topic.GetId(), shown)
		if err != nil {
			return err
		}
		for _, m := range messages {
			if t.isOpen(ctx, m) {
				t.asked = append(t.asked, m)
			} else {
				t.view.message(m)
			}
		}
	}
	if err := t.postTypedAhead(ctx); err != nil {
		return err
	}
	return t.run(ctx)
}

// postTypedAhead posts the lines that the person has typed before the open questions are asked.
func (t *talk) postTypedAhead(ctx context.Context) error {
	for n := 0; len(t.asked) > 0 && !t.ended; n-- {
		if n == 0 {
			n = t.u.TypedAhead()
		}
		if n == 0 {
			break
		}
		text, err := t.u.Lines().Read(ctx)
		if err := t.line(ctx, input{text, err}); err != nil {
			return err
		}
	}
	return nil
}

// topic finds the topic to talk in, or creates one.
func (c *Cmd) topic(ctx context.Context, s *discover.Session) (*conversationv1.Topic, error) {
	switch {
	case c.Topic != "" && (c.Agent != "" || c.New):
		return nil, ui.Usagef("name a topic or an agent, not both").Then("pawl topics add TOPIC --agent ID adds an agent to a topic")
	case c.New && c.Agent == "":
		return nil, ui.Usagef("--new needs --agent").Then("pawl topics create --help")
	case c.Agent == "":
		topic, err := Find(ctx, s, cmp.Or(c.Topic, "last"))
		if err != nil && c.Topic == "" && ui.AsError(err).Code == ui.Failed {
			return nil, ui.Usagef("you have no topic yet").Then("pawl chat --agent ID%s begins one; pawl agents%s lists your agents", s.Flags(), s.Flags())
		}
		return topic, err
	}
	if !c.New {
		list, err := s.Topics.ListTopics(ctx, &conversationv1.ListTopicsRequest{AgentId: c.Agent, PageSize: 1})
		if err != nil {
			return nil, err
		}
		if len(list.GetTopics()) > 0 {
			return list.GetTopics()[0], nil
		}
	}
	agent := &conversationv1.Participant{Who: &conversationv1.Participant_AgentId{AgentId: c.Agent}}
	return s.Topics.CreateTopic(ctx, &conversationv1.CreateTopicRequest{
		Topic: &conversationv1.Topic{DisplayName: "Chat with " + c.Agent}, Participants: []*conversationv1.Participant{agent}, RequestId: uuid.NewString()})
}

// maxServers is how many servers a message may name.
const maxServers = 3

// ext returns the settings of the person's messages, or nil: the model, and the servers with that of the folder, which is offered to an agent of the person's that has no
// servers of its own and is alone with people.
func (c *Cmd) ext(ctx context.Context, u *ui.UI, s *discover.Session, topic *conversationv1.Topic) (*structpb.Struct, discover.Folder, error) {
	fields := map[string]any{}
	if c.Model != "" {
		if _, err := s.Planner.ListModels(ctx, &plannerv1.ListModelsRequest{Name: c.Model}); err != nil {
			return nil, discover.Folder{}, err
		}
		fields["model"] = c.Model
	}
	folder, ids, err := c.servers(ctx, u, s, topic)
	if err != nil {
		return nil, discover.Folder{}, err
	}
	if len(ids) > 0 {
		fields["mcp_servers"] = ids
	}
	if len(fields) == 0 {
		return nil, folder, nil
	}
	ext, err := structpb.NewStruct(fields)
	return ext, folder, err
}

// servers returns the servers that the person's messages name, with that of the folder.
func (c *Cmd) servers(ctx context.Context, u *ui.UI, s *discover.Session, topic *conversationv1.Topic) (discover.Folder, []any, error) {
	all := agents(topic)
	if len(all) != 1 {
		if c.Workspace != "" {
			return discover.Folder{}, nil, ui.Usagef("--workspace is for a topic with one agent, and this topic has %d", len(all))
		}
		return s.KnownWorkspace(ctx), nil, nil
	}
	req := &executorv1.CreateTaskRequest{AgentId: all[0].GetAgentId()}
	folder, err := c.Scope(ctx, u, s, req)
	switch {
	case status.Code(err) == codes.NotFound && c.Workspace == "": // the agent is another user's
		return s.KnownWorkspace(ctx), nil, nil
	case err == nil && len(req.GetMcpIds()) > maxServers:
		u.Warn("the folder is not offered, because a message names at most %d MCP servers; pawl agents update %s%s --mcp ID chooses the agent's", maxServers, req.GetAgentId(), s.Flags())
		return folder, nil, nil
	}
	ids := make([]any, len(req.GetMcpIds()))
	for i, id := range req.GetMcpIds() {
		ids[i] = id
	}
	return folder, ids, err
}

// agents returns the agents of a topic.
func agents(t *conversationv1.Topic) (all []*conversationv1.Participant) {
	for _, p := range t.GetParticipants() {
		if p.GetAgentId() != "" {
			all = append(all, p)
		}
	}
	return all
}

// talk is a running conversation.
type talk struct {
	u      *ui.UI
	s      *discover.Session
	topic  *conversationv1.Topic
	ext    *structpb.Struct // of the person's messages
	folder discover.Folder
	view   *view
	work   *work
	ask    *task.Asker // nil: there is no terminal to ask at

	asked        []*conversationv1.Message // open questions, oldest first
	answers      chan answer               // of the first one, which is being asked; nil: none is being asked
	cancelAsking context.CancelFunc
	reading      *reading          // nil: no line is being read
	calls        chan string       // tool calls of agents
	commands     chan typedCommand // typed at a question
	ended        bool              // the input has ended
	interrupted  bool              // the person interrupted the agents, and has typed nothing since
}

// isOpen reports whether a message asks a question that is still unanswered, as far as the user may see the task.
func (t *talk) isOpen(ctx context.Context, m *conversationv1.Message) bool {
	if m.GetWait() == nil {
		return false
	}
	asking, err := t.s.Tasks.GetTask(ctx, &executorv1.GetTaskRequest{Id: m.GetTaskId()})
	return err == nil && slices.ContainsFunc(asking.GetWaits(), func(w *executorv1.Wait) bool { return w.GetId() == m.GetWait().GetId() })
}

// answer is the result of asking the person.
type answer struct {
	req *executorv1.ResumeTaskRequest // nil: the question stays open
	err error
}

// input is a line that was read.
type input struct {
	text string
	err  error
}

// run holds the conversation until the input has ended and all agents have answered, or the person leaves.
func (t *talk) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	interrupts, release := t.u.Signals.Take()
	defer release()
	events := follow(ctx, t.s, t.topic.GetId(), t.topic.GetLastSeq())
	t.calls, t.commands = make(chan string), make(chan typedCommand)
	for {
		if done, waits := t.work.done(); t.ended && (done || t.u.InTTY) && t.answers == nil {
			return t.exit(waits)
		}
		if err := t.listen(ctx); err != nil {
			return err
		}
		if err := t.next(ctx, events, interrupts); err != nil {
			return err
		}
	}
}

// next handles one event, line, answer or interrupt.
func (t *talk) next(ctx context.Context, events <-chan item, interrupts <-chan struct{}) error {
	var lines chan input
	if t.reading != nil {
		lines = t.reading.lines
	}
	select {
	case i, open := <-events:
		switch {
		case !open: // ctx is done
			return ui.Exit(ui.Stopped)
		case i.err != nil:
			return i.err
		}
		return t.event(ctx, i.event)
	case in := <-lines:
		t.reading = nil
		return t.line(ctx, in)
	case a := <-t.answers:
		return t.answered(ctx, a)
	case c := <-t.commands:
		defer close(c.done)
		return t.report(t.command(ctx, c.words))
	case call := <-t.calls:
		t.view.remark("%s", call)
		return nil
	case <-interrupts:
		if done, _ := t.work.done(); done && t.view.reply == "" || t.interrupted || !t.u.InTTY {
			return ui.Exit(ui.Stopped)
		}
		t.interrupted = true
		t.u.Note("interrupting the agents; Ctrl-C again leaves")
		return t.report(t.interrupt(ctx, ""))
	case <-ctx.Done():
		return ui.Exit(ui.Stopped)
	}
}

// exit returns the error that gives the command its exit code, or nil.
func (t *talk) exit(waits bool) error {
	switch {
	case t.u.InTTY:
		return nil
	case waits:
		return ui.Exit(ui.Stopped)
	case t.work.failed:
		return ui.Exit(ui.Failed)
	}
	return nil
}

// reading is a line that is being read.
type reading struct {
	lines  chan input
	cancel context.CancelFunc
}

// listen asks the first open question, or else reads the next line. A line that was typed before a question was shown is a message.
func (t *talk) listen(ctx context.Context) error {
	switch {
	case t.answers != nil:
		return nil
	case len(t.asked) > 0:
		if r := t.reading; r != nil {
			r.cancel()
			t.reading = nil
			if in := <-r.lines; in.err == nil {
				if err := t.line(ctx, in); err != nil {
					return err
				}
			}
		}
		t.startAsking(ctx)
	case t.reading == nil && !t.ended:
		ctx, cancel := context.WithCancel(ctx)
		t.reading = &reading{make(chan input, 1), cancel}
		go func(r *reading) {
			text, err := t.u.Lines().Read(ctx)
			r.lines <- input{text, err}
		}(t.reading)
	}
	return nil
}

// event shows an event, and takes note of what it means for this command.
func (t *talk) event(ctx context.Context, ev *conversationv1.TopicEvent) error {
	t.work.event(ev)
	switch m := ev.GetNewMessage(); {
	case m.GetWait() != nil && t.ask != nil:
		t.asked = append(t.asked, m)
	case m.GetAnsweredWaitId() != "":
		t.close(m.GetReplyTo())
	case ev.GetAgentSilent() != nil:
		for _, question := range slices.Clone(t.asked) {
			if question.GetTaskId() == ev.GetTaskId() {
				t.close(question.GetId())
			}
		}
	}
	switch p := ev.GetParticipant(); {
	case p != nil:
		t.setParticipant(p.GetName(), p)
	case ev.GetParticipantLeft() != nil:
		t.setParticipant(ev.GetParticipantLeft().GetParticipant().GetName(), nil)
	}
	if t.u.JSON {
		return ui.JSONLine(t.u.Out, ev)
	}
	if ev.GetNewMessage().GetWait() == nil || t.ask == nil { // the question shows it
		t.view.event(ev)
	}
	if ev.GetType() == conversationv1.TopicEventType_TOPIC_EVENT_TYPE_AGENT_RECEIVED {
		go t.showCalls(ctx, ev.GetAgent(), ev.GetTaskId())
	}
	return nil
}

// setParticipant adds, changes or, if p is nil, removes a participant.
func (t *talk) setParticipant(name string, p *conversationv1.Participant) {
	t.topic.Participants = slices.DeleteFunc(t.topic.Participants, func(old *conversationv1.Participant) bool { return old.GetName() == name })
	if p != nil {
		t.topic.Participants = append(t.topic.Participants, p)
	}
}

// maxCall bounds the line about a call, in columns.
const maxCall = 160

// showCalls shows the tool calls of an agent's task, if the person may see the task.
func (t *talk) showCalls(ctx context.Context, agent, taskID string) {
	for item := range task.Follow(ctx, t.s, taskID, 0) {
		in := item.Event.GetStepInput()
		if in == nil {
			continue
		}
		select {
		case t.calls <- ui.Fit(fmt.Sprintf("@%s calls %s %s", agent, t.folder.TaskAlias(item.Event.GetFlow().GetStepName()), ui.CompactJSON(in.GetInputJson())), maxCall):
		case <-ctx.Done():
		}
	}
}

// close drops a question that is no longer open.
func (t *talk) close(messageID string) {
	if t.answers != nil && t.asked[0].GetId() == messageID {
		t.cancelAsking()
		<-t.answers
		t.answers = nil
		t.u.Note("the question is no longer open")
	}
	t.asked = slices.DeleteFunc(t.asked, func(m *conversationv1.Message) bool { return m.GetId() == messageID })
}

func (t *talk) startAsking(ctx context.Context) {
	m := t.asked[0]
	ctx, t.cancelAsking = context.WithCancel(ctx)
	t.answers = make(chan answer, 1)
	text, _, _ := strings.Cut("\n"+m.GetText(), "\n"+m.GetWait().GetToolId()+" ") // the question shows the call
	t.u.Printf("%s %s\n", t.view.who(m.GetSender()), ui.Text(strings.TrimPrefix(text, "\n")))
	go func(answers chan answer) {
		req, err := t.ask.Ask(ctx, m.GetWait())
		answers <- answer{req, err}
	}(t.answers)
}

// answered posts the person's answer to the first open question.
func (t *talk) answered(ctx context.Context, a answer) error {
	m := t.asked[0]
	t.cancelAsking()
	t.answers, t.asked = nil, t.asked[1:]
	switch {
	case errors.Is(a.err, task.ErrCancel):
		return t.report(t.interrupt(ctx, m.GetSender()))
	case a.err != nil:
		return a.err
	case a.req == nil:
		t.u.Note("the question stays open: pawl show %s%s", ui.ShortID(m.GetTaskId()), t.s.Flags())
		return nil
	}
	req := &conversationv1.PostMessageRequest{TopicId: t.topic.GetId(), Message: &conversationv1.Message{Id: t.newID(), ReplyTo: m.GetId()}, Answer: waitAnswer(a.req)}
	_, err := t.s.Topics.PostMessage(ctx, req)
	return t.report(err)
}

// waitAnswer converts the answer to a wait of a task.
func waitAnswer(req *executorv1.ResumeTaskRequest) *conversationv1.WaitAnswer {
	switch a := req.GetAnswer().(type) {
	case *executorv1.ResumeTaskRequest_Approve:
		return &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Approve{Approve: a.Approve}}
	case *executorv1.ResumeTaskRequest_Reject:
		return &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Reject{Reject: a.Reject}}
	case *executorv1.ResumeTaskRequest_Params:
		return &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Params{Params: a.Params}}
	case *executorv1.ResumeTaskRequest_Outcome:
		return &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Outcome{Outcome: a.Outcome}}
	case *executorv1.ResumeTaskRequest_Input:
		return &conversationv1.WaitAnswer{Answer: &conversationv1.WaitAnswer_Input{Input: a.Input}}
	}
	return nil // the service refuses it
}

// newID returns the id of a message that is written here.
func (t *talk) newID() string {
	id := uuid.NewString()
	t.view.posted[id] = true
	return id
}

// line posts a line, or runs the command that it holds.
func (t *talk) line(ctx context.Context, in input) error {
	text := strings.TrimSpace(in.text)
	t.interrupted = false
	switch {
	case errors.Is(in.err, io.EOF):
		t.ended = true
		return nil
	case in.err != nil:
		return in.err
	case text == "":
		return nil
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		return t.report(t.command(ctx, strings.Fields(text)))
	}
	id := t.newID()
	t.work.posted(id, agents(t.topic))
	m := &conversationv1.Message{Id: id, Text: strings.TrimPrefix(text, "/"), Ext: t.ext}
	_, err := t.s.Topics.PostMessage(ctx, &conversationv1.PostMessageRequest{TopicId: t.topic.GetId(), Message: m})
	return t.report(err)
}

// report shows an error at a terminal, where the conversation goes on, and returns it elsewhere.
func (t *talk) report(err error) error {
	if err == nil || !t.u.InTTY || errors.Is(err, errQuit) || errors.Is(err, context.Canceled) {
		return err
	}
	t.u.Report(err)
	return nil
}
