package topic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Tasks creates and cancels the tasks of agents.
type Tasks interface {
	// CreateChat creates the task by which an agent considers a message of the outbox, and returns its id. If the task was created already, it returns the
	// task's id, or "" if the task was deleted. If the task cannot be created, the error's message says why and what to do.
	CreateChat(ctx context.Context, c Considerer, m *journal.TopicMessage, o journal.Outgoing) (taskID string, err error)
	// CancelChat cancels a task of CreateChat; if it has ended, it does nothing.
	CancelChat(ctx context.Context, taskID, reason string) error
	// CancelChats cancels the tasks of a topic that a fact ends, and returns their ids.
	CancelChats(ctx context.Context, topicID string, e Ending) (taskIDs []string, err error)
}

// Dispatcher moves messages from the outbox to agents: it creates a task for each agent that considers a message. It ends the tasks of messages that were
// rolled back, and those of agents that were interrupted or left. It repeats what failed or was cut off; the tasks' request ids make that harmless.
type Dispatcher struct {
	Journal journal.Journal // wrapped by Hub.Wrap
	Hub     *Hub
	Tasks   Tasks
	Log     *slog.Logger
}

const (
	// dispatchBatch bounds the messages that are read at once, and dispatchers how many topics are worked on at once.
	dispatchBatch = 256
	dispatchers   = 16
	// firstPause and lastPause bound the backoff between attempts while the journal fails.
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// attemptTime bounds an attempt to dispatch a message, because the planner or the pool may never answer.
	attemptTime = 10 * time.Second
)

// Run dispatches messages until ctx is done.
func (d *Dispatcher) Run(ctx context.Context) {
	for pause := firstPause; ; {
		err := d.dispatchAll(ctx)
		if ctx.Err() != nil {
			return
		}
		var retry <-chan time.Time
		if err != nil {
			d.Log.Error("messages could not be dispatched to agents; retrying", "error", err, "pause", pause)
			retry = time.After(pause)
			pause = min(2*pause, lastPause)
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-d.Hub.outbox:
		case <-retry:
		}
	}
}

// dispatchAll dispatches all messages in the outbox. It leaves those that fail, and the later ones of their topics, and returns an error then.
func (d *Dispatcher) dispatchAll(ctx context.Context) (err error) {
	failed := map[string]bool{}
	for after := uint64(0); ; {
		batch, readErr := d.Journal.Outbox(ctx, after, dispatchBatch)
		if readErr != nil || len(batch) == 0 {
			return cmp.Or(readErr, err)
		}
		after = batch[len(batch)-1].No
		done, batchErr := d.dispatchBatch(ctx, batch, failed)
		err = cmp.Or(err, batchErr)
		if len(done) > 0 {
			err = cmp.Or(err, d.Journal.Dispatched(ctx, done))
		}
	}
}

// dispatchBatch dispatches messages, those of one topic in their order, and returns the numbers of those that are done. It skips and extends the topics that
// failed.
func (d *Dispatcher) dispatchBatch(ctx context.Context, batch []journal.Outgoing, failed map[string]bool) (done []uint64, err error) {
	byTopic := map[string][]journal.Outgoing{}
	for _, o := range batch {
		if !failed[o.GetTopicId()] {
			byTopic[o.GetTopicId()] = append(byTopic[o.GetTopicId()], o)
		}
	}
	var mu sync.Mutex // guards done, err and failed
	var wg sync.WaitGroup
	slots := make(chan struct{}, dispatchers)
	for id, messages := range byTopic {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for _, o := range messages {
				problem := d.dispatch(ctx, o)
				mu.Lock()
				if problem != nil {
					err, failed[id] = cmp.Or(err, fmt.Errorf("topic %s: %w", id, problem)), true
					mu.Unlock()
					return
				}
				done = append(done, o.No)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return done, err
}

// dispatch passes one message to the agents that consider it.
func (d *Dispatcher) dispatch(ctx context.Context, o journal.Outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	t, m, err := d.load(ctx, o)
	switch {
	case err != nil:
		return err
	case m == nil:
		return d.endTasks(ctx, t, o)
	}
	var silent []*storagev1.TopicFact
	created := map[*storagev1.Chat]string{} // the tasks' ids
	for _, c := range Considerers(t.ID, t.Topic, m) {
		refused := c.Refused
		switch {
		case t.GetArchived():
			c.TooLate = "the topic was archived before it began"
		case t.Interrupted(c.Agent.GetName(), began(c.Chat)):
			c.TooLate = "interrupted before it began"
		}
		if refused == "" {
			id, err := d.Tasks.CreateChat(ctx, c, m, o)
			if err != nil && !isFinal(err) {
				return err
			} else if err != nil {
				refused = errs.From(err).Message
			} else {
				created[c.Chat] = id
			}
		}
		if refused != "" {
			silent = append(silent, &storagev1.TopicFact{
				Agent: c.Agent.GetName(), MessageId: m.GetId(), Kind: &storagev1.TopicFact_AgentSilent{AgentSilent: refused},
			})
		}
	}
	if err := d.cancelUnwanted(ctx, t.ID, created); err != nil || len(silent) == 0 {
		return err
	}
	// The message leaves the outbox with the post, so that no agent says twice that it is silent.
	_, _, err = d.Journal.Post(ctx, journal.Post{TopicID: t.ID, Now: time.Now(), Facts: silent, Answers: m.Seq, Dispatched: o.No})
	if errors.Is(err, journal.ErrNotFound) {
		return nil // the topic was deleted
	}
	return err
}

// load returns the topic of an entry of the outbox, nil if it was deleted, and the message, nil if the topic was deleted or the entry ends tasks.
func (d *Dispatcher) load(ctx context.Context, o journal.Outgoing) (*journal.Topic, *journal.TopicMessage, error) {
	t, err := d.Journal.Topic(ctx, o.GetTopicId())
	var page journal.MessagePage
	if err == nil && o.GetInterruption() == nil {
		page, err = d.Journal.Messages(ctx, journal.MessageQuery{TopicID: o.GetTopicId(), From: o.GetSeq() - 1, OldestFirst: true, RolledBack: true, Limit: 1})
	}
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case len(page.Messages) == 0 || page.Messages[0].Seq != o.GetSeq():
		return t, nil, nil
	}
	return t, &page.Messages[0], nil
}

// endTasks ends the tasks that an entry of the outbox ends. The request that posted it does so too, unless it was cut off. t is nil if the topic was deleted.
func (d *Dispatcher) endTasks(ctx context.Context, t *journal.Topic, o journal.Outgoing) error {
	var e Ending
	switch i := o.GetInterruption(); {
	case len(o.GetDeletedOwners()) > 0:
		e = EndingOfDeletion(o.GetDeletedOwners())
	case t == nil:
		return nil
	case i != nil:
		e = EndingOfInterruption(t.Topic, i)
	default:
		records, err := d.Journal.TopicRecords(ctx, t.ID, o.GetSeq()-1, 1)
		if err != nil || len(records) == 0 {
			return err // without records the topic was deleted
		}
		e = EndingOf(t.Topic, records[0].GetFacts()[o.GetSeq()-records[0].FirstSeq], o.GetSeq())
	}
	_, err := d.Tasks.CancelChats(ctx, o.GetTopicId(), e)
	return err
}

// cancelUnwanted cancels tasks whose message was rolled back, or whose agent was interrupted or removed, while they were created.
func (d *Dispatcher) cancelUnwanted(ctx context.Context, topicID string, created map[*storagev1.Chat]string) error {
	if len(created) == 0 {
		return nil
	}
	t, err := d.Journal.Topic(ctx, topicID)
	if errors.Is(err, journal.ErrNotFound) {
		return nil // the topic was deleted, and the entry of its deletion follows
	}
	if err != nil {
		return err
	}
	for chat, id := range created {
		var reason string
		switch {
		case id == "":
			continue
		case t.RolledBack(chat.GetMessageSeq()):
			reason = "the message was rolled back"
		case t.Interrupted(chat.GetAgent(), began(chat)):
			reason = "interrupted"
		case !slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetName() == chat.GetAgent() }):
			reason = "the agent was removed from the topic"
		default:
			continue
		}
		if err := d.Tasks.CancelChat(ctx, id, reason); err != nil {
			return err
		}
	}
	return nil
}

// isFinal reports whether an error says that a task cannot be created, so that it is no use to try again soon.
func isFinal(err error) bool {
	switch e := errs.From(err); e.Code {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Aborted:
		return false
	default:
		return e.Reason != commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED
	}
}
