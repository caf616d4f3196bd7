package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	// readBytes bounds what is read at once.
	readBytes = 1 << 20
	// messageBytes bounds the texts of the messages: about a million tokens, which is more than the windows of models.
	messageBytes = 4 << 20
	// outputBytes bounds the outputs of the steps of other tasks. Newer ones have precedence.
	outputBytes = 16 << 20
)

// Journal is what is read of a journal.
type Journal interface {
	List(ctx context.Context, q journal.Query) (journal.Page, error)
	Records(ctx context.Context, taskID string, after uint64, maxBytes int) ([]journal.Record, error)
	Messages(ctx context.Context, q journal.MessageQuery) (journal.MessagePage, error)
	Summary(ctx context.Context, topicID, agent string) (*storagev1.TopicSummary, error)
}

// Load loads what a new or continued task knows.
func Load(ctx context.Context, j Journal, id string, head *storagev1.TaskHead, want flow.Memory) (m runner.Memory, err error) {
	if m.Turns, err = turns(ctx, j, id, head, want.Turns); err != nil {
		return m, err
	}
	size := 0
	for _, task := range slices.Backward(want.StepsOf) {
		steps, err := steps(ctx, j, task)
		if err != nil {
			return m, err
		}
		for _, e := range steps {
			if size += len(e.OutputJSON); size > outputBytes {
				e.OutputJSON = fmt.Sprintf(`{"message":"(%d bytes, left out: too large)"}`, len(e.OutputJSON))
			}
		}
		m.Steps = append(steps, m.Steps...)
	}
	if head.GetChat() != nil && want.Messages > 0 {
		err = messages(ctx, j, id, head.GetChat(), want, &m)
	}
	return m, err
}

// turns loads the newest successful tasks of the conversation that were created before the task.
func turns(ctx context.Context, j Journal, id string, head *storagev1.TaskHead, limit int) (turns []runner.Turn, err error) {
	if head.GetConversationId() == "" || limit == 0 {
		return nil, nil
	}
	page, err := j.List(ctx, journal.Query{
		User: head.GetUserSub(), ConversationID: head.GetConversationId(), Before: id, Limit: limit,
		Statuses: []executorv1.ExecutorStatus{executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS},
	})
	if err != nil {
		return nil, err
	}
	for _, t := range slices.Backward(page.Tasks) {
		records, err := j.Records(ctx, t.ID, t.Checkpoint.GetLastSeq()-1, readBytes)
		if err != nil {
			return nil, err
		}
		turns = append(turns, runner.Turn{Question: t.Head.GetGoal(), Answer: view.FullAnswer(records)})
	}
	return turns, nil
}

// steps loads the steps of a task; none if the task was deleted.
func steps(ctx context.Context, j Journal, id string) ([]*history.Entry, error) {
	log := history.Log{}
	for after := uint64(0); ; {
		records, err := j.Records(ctx, id, after, readBytes)
		if errors.Is(err, journal.ErrNotFound) {
			return nil, nil
		}
		if err != nil || len(records) == 0 {
			return log.Entries, err
		}
		for _, r := range records {
			log.Add(r.Record)
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
}

// messages loads the newest messages before the one that the task answers, and the agent's summary. What the agent has posted since, while the message
// was queued, is before it for the agent: a summary reaches to the seq before the message then.
func messages(ctx context.Context, j Journal, task string, chat *storagev1.Chat, want flow.Memory, m *runner.Memory) error {
	summary, err := j.Summary(ctx, chat.GetTopicId(), chat.GetAgent())
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	if summary.GetToSeq() >= chat.GetMessageSeq() {
		summary = nil // of messages that came later
	}
	m.Summary = summary.GetText()
	size := 0
	q := journal.MessageQuery{TopicID: chat.GetTopicId(), MaxBytes: readBytes}
	for more := true; more && len(m.Messages) < want.Messages; {
		q.Limit = want.Messages - len(m.Messages)
		page, err := j.Messages(ctx, q)
		if errors.Is(err, journal.ErrNotFound) {
			break // the topic was deleted
		}
		if err != nil {
			return err
		}
		more = page.More
		for _, message := range page.Messages {
			if q.From = message.Seq; !precedes(message, chat, task) {
				continue
			}
			text := truncate(textOf(message.TopicMessage), want.MessageLength)
			if size += len(text); size > messageBytes || want.AfterSummary && message.Seq <= summary.GetToSeq() {
				more = false
				break
			}
			if text != "" { // as the answer to a wait may be
				m.Messages = append(m.Messages, runner.Message{Seq: min(message.Seq, chat.GetMessageSeq()-1), Sender: message.GetSender(), FromSelf: isOwn(message, chat), Text: text})
			}
		}
	}
	slices.Reverse(m.Messages)
	return nil
}

// precedes reports whether a message is before the one that the task answers for the agent: it is older, or the agent has posted it since, but not this
// task before a crash.
func precedes(message journal.TopicMessage, chat *storagev1.Chat, task string) bool {
	if message.Seq <= chat.GetMessageSeq() {
		return message.Seq < chat.GetMessageSeq()
	}
	return isOwn(message, chat) && !strings.HasPrefix(message.GetId(), task+"/")
}

// isOwn reports whether the agent of the task has posted a message.
func isOwn(message journal.TopicMessage, chat *storagev1.Chat) bool {
	return message.GetFromAgent() && message.GetSender() == chat.GetAgent()
}

// textOf returns a message's text, with the names of its media.
func textOf(m *storagev1.TopicMessage) string {
	text := m.GetText()
	for _, f := range m.GetMedia() {
		text = strings.TrimPrefix(text+"\n", "\n") + "[" + f.GetType() + strings.TrimSuffix(": "+f.GetName(), ": ") + "]"
	}
	return text
}

// truncate returns at most the first n characters of a text; all if n is 0.
func truncate(text string, n int) string {
	if n == 0 || utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
