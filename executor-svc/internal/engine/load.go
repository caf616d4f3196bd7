package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/history"
	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/runner"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// loadBytes bounds the bytes of a task's records that are read at once.
	loadBytes = 1 << 20
	// keptOutputs bounds the bytes of the outputs of a running task that stay in memory; others are read from the journal when they are needed.
	keptOutputs = 1 << 20
	// maxConversationTurns is how many earlier turns (question and answer) of a conversation the planner gets.
	maxConversationTurns = 3
	// roundMessages is how many messages of a topic the planner gets in rounds, each cut at roundTextLength characters; phaseMessages is how many
	// it gets in phases at most.
	roundMessages   = 6
	roundTextLength = 500
	phaseMessages   = 1000
	// firstPause and lastPause bound the backoff between attempts while the storage fails.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// noticePause is the backoff at which the storage is reported as failing.
	noticePause = 400 * time.Millisecond
)

// errUnknownFlow is the error of a task that a newer executor created.
var errUnknownFlow = errors.New("the flow is not known to this executor; use a newer executor")

// load reads the task and its history, with backoff while the storage fails. reclaim reports that the task cannot be read: its slot is given
// up, and the task is claimed again later.
func (o *owner) load() (loaded, reclaim bool) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := o.read()
		switch {
		case err == nil:
			return true, false
		case errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrNotFound), o.base.Err() != nil:
			return false, false
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, errUnknownFlow):
			o.log().Error("the task cannot be loaded", "error", err)
			return false, true
		}
		o.log().Error("the task could not be loaded; retrying", "error", err, "pause", pause)
		if !sleep(pause, o.e.draining) {
			return false, false
		}
	}
}

func (o *owner) read() error {
	t, err := o.e.deps.Journal.Load(o.base, o.id)
	if err != nil {
		return err
	}
	o.head, o.state, o.history = t.Head, t.Checkpoint, &history.Log{MaxOutputs: keptOutputs}
	for after := uint64(0); after < o.state.GetLastSeq(); {
		records, err := o.e.records(o.base, o.id, after, loadBytes)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return errors.New("records are missing at the end of the task's history")
		}
		for _, r := range records {
			o.history.Add(r.Record)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
	if o.flow = o.e.deps.Flows[o.head.GetFlow()]; o.flow == nil {
		return fmt.Errorf("%q: %w", o.head.GetFlow(), errUnknownFlow)
	}
	turns, err := o.conversationTurns()
	if err != nil {
		return err
	}
	conversation, err := o.conversation()
	if err != nil {
		return err
	}
	o.resumePending = !o.idle()
	o.session = o.e.deps.Runner.Session(o.id, o.epoch, o.head, turns)
	o.session.Conversation = conversation
	o.session.ReadOutput = o.readOutput
	o.session.Notify = func(in flow.Input) { o.deliver(item{input: in, generation: noAction}) }
	o.base = o.session.AsUser(o.e.ctx)
	o.startSpan()
	o.lanes = map[uint32]*laneRun{}
	return nil
}

// readOutput returns the output in the fact with this seq.
func (o *owner) readOutput(ctx context.Context, seq uint64) (string, error) {
	records, err := o.e.records(ctx, o.id, seq-1, 1)
	if err != nil {
		return "", err
	}
	if len(records) == 0 || seq < records[0].FirstSeq {
		return "", fmt.Errorf("the record of seq %d: %w", seq, journal.ErrNotFound)
	}
	return records[0].GetFacts()[seq-records[0].FirstSeq].GetStepOutput(), nil
}

// conversationTurns loads the newest turns of the conversation: its successful tasks that were created before this task.
func (o *owner) conversationTurns() (turns []runner.Turn, err error) {
	if o.head.GetConversationId() == "" || o.head.GetChat() != nil {
		return nil, nil
	}
	page, err := o.e.deps.Journal.List(o.base, journal.Query{
		User: o.head.GetUserSub(), ConversationID: o.head.GetConversationId(), Before: o.id, Limit: maxConversationTurns,
		Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS},
	})
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(page.Tasks) {
		records, err := o.e.deps.Journal.Records(o.base, t.ID, t.Checkpoint.GetLastSeq()-1, loadBytes)
		if err != nil {
			return nil, err
		}
		turns = append(turns, runner.Turn{Question: t.Head.GetGoal(), Answer: view.FullAnswer(records)})
	}
	return turns, nil
}

// conversation loads what the task knows of the topic whose message it answers: the newest messages before that message, and the agent's summary of
// those before them. In rounds, few and short messages are enough; in phases, the planner summarizes what does not fit.
func (o *owner) conversation() (c runner.Conversation, err error) {
	chat := o.head.GetChat()
	if chat == nil {
		return c, nil
	}
	summary, err := o.e.deps.Journal.Summary(o.base, chat.GetTopicId(), chat.GetAgent())
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return c, err
	}
	if summary.GetToSeq() >= chat.GetMessageSeq() {
		summary = nil // of messages that came later
	}
	limit := roundMessages
	if chat.GetPhases() {
		limit = phaseMessages
	}
	page, err := o.e.deps.Journal.Messages(o.base, journal.MessageQuery{TopicID: chat.GetTopicId(), From: chat.GetMessageSeq(), Limit: limit})
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return c, err
	}
	c.Summary = summary.GetText()
	for _, m := range slices.Backward(page.Messages) {
		if chat.GetPhases() && m.Seq <= summary.GetToSeq() {
			continue
		}
		text := textOf(m.TopicMessage)
		if !chat.GetPhases() {
			text = truncate(text, roundTextLength)
		}
		c.Messages = append(c.Messages, runner.Message{Seq: m.Seq, Sender: m.GetSender(), FromSelf: m.GetFromAgent() && m.GetSender() == chat.GetAgent(), Text: text})
	}
	return c, nil
}

// textOf returns a message's text, with the names of its media.
func textOf(m *storagev1.TopicMessage) string {
	text := m.GetText()
	for _, f := range m.GetMedia() {
		text = strings.TrimPrefix(text+"\n", "\n") + "[" + f.GetType() + strings.TrimSuffix(": "+f.GetName(), ": ") + "]"
	}
	return text
}

// truncate returns at most the first n characters of a text.
func truncate(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
