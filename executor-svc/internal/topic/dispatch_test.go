package topic_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/topic"
)

// book is a journal of private topics, each with the agent A.
type book struct {
	journal.Journal // nil: other methods are not called

	mu     sync.Mutex // guards the fields below
	posts  []journal.Outgoing
	outbox []journal.Outgoing
	// entries counts what was put into the outbox.
	entries uint64
	// fails makes the next reads of the outbox fail, and keeps the next removals from it.
	fails, keeps int
	rolled       map[string]bool // topics of which everything was rolled back
	silent       []string
	interrupted  []*storagev1.Interruption
	endings      map[uint64]*storagev1.TopicFact // by seq
	deleted      string                          // a topic
	// process, if not 0, is the message with which the process of the agent A began that posts the messages.
	process uint64
}

func (b *book) Post(_ context.Context, p journal.Post) (uint64, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries++
	if p.Interrupts != nil {
		i := proto.CloneOf(p.Interrupts)
		i.Seq = uint64(len(b.posts))
		b.interrupted = append(b.interrupted, i)
		b.outbox = append(b.outbox, journal.Outgoing{No: b.entries, Outgoing: &storagev1.Outgoing{TopicId: p.TopicID, Seq: i.Seq, Interruption: i}})
		return 0, true, nil
	}
	if reason := p.Facts[0].GetAgentSilent(); reason != "" {
		b.silent = append(b.silent, p.TopicID+": "+reason)
		b.outbox = slices.DeleteFunc(b.outbox, func(o journal.Outgoing) bool { return o.No == p.Dispatched })
		return 0, true, nil
	}
	n := uint64(len(b.posts) + 1)
	if journal.EndsTasks(p.Facts[0]) {
		b.endings[n] = p.Facts[0]
	}
	o := journal.Outgoing{No: b.entries, Outgoing: &storagev1.Outgoing{TopicId: p.TopicID, Seq: n}}
	b.posts, b.outbox = append(b.posts, o), append(b.outbox, o)
	return n, true, nil
}

func (b *book) Outbox(_ context.Context, after uint64, limit int) (out []journal.Outgoing, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails > 0 {
		b.fails--
		return nil, errors.New("the disk is gone")
	}
	for _, o := range b.outbox {
		if o.No > after && len(out) < limit {
			out = append(out, o)
		}
	}
	return out, nil
}

func (b *book) Dispatched(_ context.Context, numbers []uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keeps > 0 {
		b.keeps--
		return errors.New("the disk is gone")
	}
	b.outbox = slices.DeleteFunc(b.outbox, func(o journal.Outgoing) bool { return slices.Contains(numbers, o.No) })
	return nil
}

func (b *book) Topic(_ context.Context, id string) (*journal.Topic, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id == "deleted" || id == b.deleted {
		return nil, journal.ErrNotFound
	}
	t := &journal.Topic{ID: id, Topic: of("ann", "A"), State: &storagev1.TopicState{Interruptions: b.interrupted}}
	t.Archived = id == "archived"
	if b.rolled[id] {
		t.State.RolledBack = []*storagev1.SeqRange{{First: 1, Last: 1000}}
	}
	return t, nil
}

// DeleteTopic deletes a topic in which the agent A was added by ann.
func (b *book) DeleteTopic(_ context.Context, id string, _ uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries++
	b.deleted = id
	b.outbox = append(b.outbox, journal.Outgoing{No: b.entries, Outgoing: &storagev1.Outgoing{TopicId: id, DeletedOwners: []string{"ann"}}})
	return nil
}

func (b *book) TopicRecords(_ context.Context, _ string, after uint64, _ int) ([]journal.TopicRecord, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return []journal.TopicRecord{{FirstSeq: after + 1, TopicRecord: &storagev1.TopicRecord{Facts: []*storagev1.TopicFact{b.endings[after+1]}}}}, nil
}

func (b *book) Messages(_ context.Context, q journal.MessageQuery) (journal.MessagePage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.endings[q.From+1] != nil {
		return journal.MessagePage{}, nil
	}
	m := &storagev1.TopicMessage{Id: fmt.Sprint("m", q.From+1), Sender: "ann", Text: "x"}
	if b.process != 0 {
		m.Sender, m.FromAgent, m.ProcessSeq, m.ExtJson = "A", true, b.process, `{"tool_call":{"server_id":"s","tool_name":"look","params":{}}}`
	}
	return journal.MessagePage{Messages: []journal.TopicMessage{{Seq: q.From + 1, TopicMessage: m}}}, nil
}

// desk creates tasks. A request of a topic in refuse fails with that error once.
type desk struct {
	mu        sync.Mutex // guards the fields below
	refuse    map[string][]error
	created   []string
	cancelled []string
	onCreate  func(c topic.Considerer)
	// hangs makes the next attempts wait for the end of their context.
	hangs int
}

func (d *desk) CreateChat(ctx context.Context, c topic.Considerer, m *journal.TopicMessage, _ journal.Outgoing) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hangs > 0 {
		d.hangs--
		<-ctx.Done()
		return "", ctx.Err()
	}
	id := c.Chat.GetTopicId()
	if c.TooLate != "" {
		return "", errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_CANCELLED, "%s", c.TooLate)
	}
	if left := d.refuse[id]; len(left) > 0 {
		d.refuse[id] = left[1:]
		return "", left[0]
	}
	if d.onCreate != nil {
		d.onCreate(c)
	}
	d.created = append(d.created, id+"/"+m.GetId())
	return "task of " + m.GetId(), nil
}

func (d *desk) all() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.created, " ")
}

func (d *desk) CancelChat(_ context.Context, id, reason string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cancelled = append(d.cancelled, id+": "+reason)
	return nil
}

// CancelChats ends the tasks of the agent A about the messages 1 … 9. It fails as CreateChat does.
func (d *desk) CancelChats(_ context.Context, topicID string, e topic.Ending) (ids []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left := d.refuse[topicID]; len(left) > 0 {
		d.refuse[topicID] = left[1:]
		return nil, left[0]
	}
	for seq := range uint64(9) {
		if e.Match(&storagev1.Chat{Agent: "A", MessageSeq: seq + 1}) {
			d.cancelled = append(d.cancelled, fmt.Sprintf("%v %d: %s", e.Owners, seq+1, e.Reason))
		}
	}
	return nil, nil
}

// dispatcher runs a dispatcher in a bubble, and returns the wrapped journal.
func dispatcher(t *testing.T, b *book, d *desk) journal.Journal {
	hub := topic.NewHub(b, serve.NewBudget("test", 1<<20))
	j := hub.Wrap(b)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		(&topic.Dispatcher{Journal: j, Hub: hub, Tasks: d, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return j
}

func post(t *testing.T, j journal.Journal, topicID string) {
	t.Helper()
	_, _, err := j.Post(t.Context(), journal.Post{TopicID: topicID, Facts: []*storagev1.TopicFact{{
		Kind: &storagev1.TopicFact_Message{Message: &storagev1.TopicMessage{Sender: "ann"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
}

// What fails for a while is repeated, in the topic's order, and holds up no other topic. Nothing is read while there is nothing to do.
func TestDispatchIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "down")
		limited := errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "too many")
		b, d := &book{fails: 9}, &desk{refuse: map[string][]error{"a": {down, limited}}} // each post may cause a read
		j := dispatcher(t, b, d)
		for _, id := range []string{"a", "a", "b", "a", "deleted"} {
			post(t, j, id)
		}
		synctest.Wait()
		if got := d.all(); got != "" {
			t.Errorf("created while the journal failed: %s", got)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if got := d.all(); got != "b/m3 a/m1 a/m2 a/m4" {
			t.Errorf("created: %s", got)
		}
		if len(b.outbox) != 0 || len(b.silent) != 0 {
			t.Errorf("left: %v, silent: %v", b.outbox, b.silent)
		}
	})
}

// A planner or pool that never answers does not end the dispatch.
func TestHangingCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &book{}, &desk{hangs: 1}
		post(t, dispatcher(t, b, d), "a")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if len(b.outbox) != 0 || d.all() != "a/m1" {
			t.Errorf("left: %v, created: %s", b.outbox, d.all())
		}
	})
}

// An agent says once that it is silent, also if the removal of the message from the outbox fails or a crash comes before it.
func TestSilentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "there is no agent")
		b, d := &book{keeps: 1}, &desk{refuse: map[string][]error{"a": {none, none}}}
		post(t, dispatcher(t, b, d), "a")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if len(b.outbox) != 0 || !slices.Equal(b.silent, []string{"a: there is no agent"}) {
			t.Errorf("left: %v, silent: %v", b.outbox, b.silent)
		}
	})
}

func TestTaskThatCannotBeCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &book{}, &desk{refuse: map[string][]error{"a": {errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_AGENT_NOT_FOUND, "there is no agent")}}}
		post(t, dispatcher(t, b, d), "a")
		synctest.Wait()
		if len(b.outbox) != 0 || len(d.created) != 0 || !slices.Equal(b.silent, []string{"a: there is no agent"}) {
			t.Errorf("left: %v, created: %v, silent: %v", b.outbox, d.created, b.silent)
		}
	})
}

// The tasks that an interruption, a rollback or a removal ends are ended although the request that did it was cut off; tasks of other messages and agents go on.
func TestTasksEndWithoutTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "down")
		b, d := &book{endings: map[uint64]*storagev1.TopicFact{}}, &desk{refuse: map[string][]error{}}
		j := dispatcher(t, b, d)
		for range 3 {
			post(t, j, "a")
		}
		synctest.Wait()
		d.refuse["a"] = []error{down, down}
		if _, _, err := j.Post(t.Context(), journal.Post{TopicID: "a", Interrupts: &storagev1.Interruption{Agent: "A", Reason: "interrupted by ann"}}); err != nil {
			t.Fatal(err)
		}
		a, other := of("ann", "A").GetParticipants()[1], &storagev1.Participant{Name: "B", AgentId: "b"}
		for _, f := range []*storagev1.TopicFact{
			{Kind: &storagev1.TopicFact_RolledBack{RolledBack: &storagev1.RolledBack{ToSeq: 1, By: "ann"}}},
			{Kind: &storagev1.TopicFact_ParticipantLeft{ParticipantLeft: &storagev1.ParticipantLeft{Participant: other}}},
			{Kind: &storagev1.TopicFact_ParticipantLeft{ParticipantLeft: &storagev1.ParticipantLeft{Participant: a}}},
		} {
			if _, _, err := j.Post(t.Context(), journal.Post{TopicID: "a", Facts: []*storagev1.TopicFact{f}}); err != nil {
				t.Fatal(err)
			}
		}
		post(t, j, "a")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		var want []string
		for seq := range 3 {
			want = append(want, fmt.Sprintf("%v %d: interrupted by ann", []string{a.GetAddedBy()}, seq+1))
		}
		for _, seq := range []int{2, 3} {
			want = append(want, fmt.Sprintf("%v %d: the message was rolled back by ann", []string{a.GetAddedBy()}, seq))
		}
		for seq := range 5 {
			want = append(want, fmt.Sprintf("%v %d: the agent was removed from the topic", []string{a.GetAddedBy()}, seq+1))
		}
		if len(b.outbox) != 0 || !slices.Equal(d.cancelled, want) || d.all() != "a/m1 a/m2 a/m3 a/m7" {
			t.Errorf("left: %v, cancelled: %q, want %q; created: %s", b.outbox, d.cancelled, want, d.all())
		}
	})
}

// A topic that is deleted while the task of its first message is created: the task ends although the request was cut off, and the second message is not answered.
func TestTopicDeletedDuringDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "down")
		b, d := &book{}, &desk{refuse: map[string][]error{"a": {down}}}
		j := dispatcher(t, b, d)
		d.onCreate = func(topic.Considerer) {
			if err := j.DeleteTopic(t.Context(), "a", 1); err != nil {
				t.Error(err)
			}
		}
		post(t, j, "a")
		post(t, j, "a")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		var want []string
		for seq := range 9 {
			want = append(want, fmt.Sprintf("[ann] %d: the topic was deleted", seq+1))
		}
		if len(b.outbox) != 0 || d.all() != "a/m1" || !slices.Equal(d.cancelled, want) {
			t.Errorf("left: %v, created: %s, cancelled: %q", b.outbox, d.all(), d.cancelled)
		}
		if topic.EndingOfDeletion([]string{"ann"}).Match(nil) {
			t.Error("a task that answers no message ends")
		}
	})
}

// A message that was queued when its topic was archived is not dropped silently.
func TestArchivedTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &book{keeps: 1}, &desk{}
		post(t, dispatcher(t, b, d), "archived")
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if len(b.outbox) != 0 || len(d.created) != 0 || !slices.Equal(b.silent, []string{"archived: the topic was archived before it began"}) {
			t.Errorf("left: %v, created: %v, silent: %v", b.outbox, d.created, b.silent)
		}
	})
}

// A rollback that comes while the task is created cancels it.
func TestRollbackDuringDispatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{rolled: map[string]bool{}}
		d := &desk{onCreate: func(topic.Considerer) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.rolled["a"] = true
		}}
		post(t, dispatcher(t, b, d), "a")
		synctest.Wait()
		if len(b.outbox) != 0 || !slices.Equal(d.cancelled, []string{"task of m1: the message was rolled back"}) {
			t.Errorf("left: %v, cancelled: %v", b.outbox, d.cancelled)
		}
	})
}

// An interruption reaches messages that are still in the outbox, and a task that is being created.
func TestInterruptionReachesTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_NETWORK_ERROR, "down")
		b := &book{}
		d := &desk{refuse: map[string][]error{"a": {down, down, down}}}
		j := dispatcher(t, b, d)
		interrupt := func() {
			if _, _, err := j.Post(t.Context(), journal.Post{TopicID: "a", Interrupts: &storagev1.Interruption{Agent: "A"}}); err != nil {
				t.Error(err)
			}
		}
		post(t, j, "a")
		synctest.Wait()
		interrupt()
		time.Sleep(time.Minute) //nolint:forbidigo // the time of synctest
		synctest.Wait()
		if len(b.outbox) != 0 || len(d.created) != 0 || !slices.Equal(b.silent, []string{"a: interrupted before it began"}) {
			t.Errorf("left: %v, created: %v, silent: %v", b.outbox, d.created, b.silent)
		}
		d.refuse = nil
		d.onCreate = func(c topic.Considerer) {
			if c.Chat.GetMessageSeq() == 2 {
				interrupt()
			}
		}
		post(t, j, "a")
		synctest.Wait()
		post(t, j, "a")
		synctest.Wait()
		if !slices.Equal(d.created, []string{"a/m2", "a/m3"}) || !slices.Contains(d.cancelled, "task of m2: interrupted") {
			t.Errorf("created: %v, cancelled: %v", d.created, d.cancelled)
		}
	})
}

// An interrupted process does not go on by a message that one of its tasks posts before it is cancelled; a task that was created for it is cancelled.
func TestInterruptedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, d := &book{process: 1}, &desk{}
		j := dispatcher(t, b, d)
		interrupt := func() {
			if _, _, err := j.Post(t.Context(), journal.Post{TopicID: "a", Interrupts: &storagev1.Interruption{Agent: "A"}}); err != nil {
				t.Error(err)
			}
		}
		d.onCreate = func(c topic.Considerer) {
			if c.Chat.GetMessageSeq() == 2 {
				interrupt()
			}
		}
		for range 3 {
			post(t, j, "a")
			synctest.Wait()
		}
		if len(b.outbox) != 0 || !slices.Equal(d.created, []string{"a/m1", "a/m2"}) || !slices.Equal(b.silent, []string{"a: interrupted before it began"}) ||
			!slices.Contains(d.cancelled, "task of m2: interrupted") {
			t.Errorf("left: %v, created: %v, silent: %v, cancelled: %v", b.outbox, d.created, b.silent, d.cancelled)
		}
	})
}
