package topic

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/feed"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

const (
	// tailRecords and tailBytes bound the records of a watched topic in memory. They are enough for the watchers that wait for new events; others read the
	// journal.
	tailRecords = 64
	tailBytes   = 64 << 10
)

// Hub wakes the watchers of topics, and the dispatcher. The first watcher that is awake reads a new record from the journal, for all watchers of its topic.
type Hub struct {
	topics journal.Topics
	// outbox receives a value when there may be a new entry in the outbox.
	outbox chan struct{}
	// budget bounds the bytes of events that watchers hold, and reading how many of them read the journal alone at once.
	budget  *serve.Budget
	reading chan struct{}
	// stopping is closed by Stop.
	stopping chan struct{}
	feeds    feed.Feeds[watched]
}

// watched is a watched topic.
type watched struct {
	// stale is set when records were posted that no watcher has read.
	stale atomic.Bool
	mu    sync.Mutex // guards the fields below; held while the journal is read
	// topic was read after the records in tail; nil until a watcher has read.
	topic *journal.Topic
	// tail holds records up to the seq end. It begins with those that are posted while the topic is watched.
	tail feed.Tail[*conversationv1.TopicEvent]
	end  uint64
}

type record = feed.Record[*conversationv1.TopicEvent]

// maxReading is how many watchers read the journal alone at once: what they read may have to wait for the budget.
const maxReading = 2

// NewHub returns a hub for the topics of a journal, whose posts go through Wrap. The budget bounds the bytes of events that watchers hold.
func NewHub(topics journal.Topics, budget *serve.Budget) *Hub {
	return &Hub{
		topics: topics, budget: budget, outbox: make(chan struct{}, 1), reading: make(chan struct{}, maxReading), stopping: make(chan struct{}),
	}
}

// Stop ends all watches.
func (h *Hub) Stop() { close(h.stopping) }

// Wrap returns the journal for all who post: the hub learns of each post.
func (h *Hub) Wrap(j journal.Journal) journal.Journal { return posting{j, h} }

type posting struct {
	journal.Journal
	hub *Hub
}

// Commit implements journal.Tasks.
func (p posting) Commit(ctx context.Context, t journal.Transition) error {
	err := p.Journal.Commit(ctx, t)
	if t.Post != nil {
		p.hub.posted(t.Post.TopicID, t.Post.Facts) // also after an error: the post may be stored
	}
	return err
}

// Post implements journal.Topics.
func (p posting) Post(ctx context.Context, post journal.Post) (seq uint64, posted bool, err error) {
	seq, posted, err = p.Journal.Post(ctx, post)
	if post.Interrupts != nil {
		wake(p.hub.outbox)
	}
	p.hub.posted(post.TopicID, post.Facts)
	return seq, posted, err
}

// UpdateTopic implements journal.Topics.
func (p posting) UpdateTopic(ctx context.Context, id string, t *storagev1.Topic, now time.Time, facts []*storagev1.TopicFact) error {
	err := p.Journal.UpdateTopic(ctx, id, t, now, facts)
	p.hub.posted(id, facts)
	return err
}

// DeleteTopic implements journal.Topics.
func (p posting) DeleteTopic(ctx context.Context, id string, rev uint64) error {
	err := p.Journal.DeleteTopic(ctx, id, rev)
	wake(p.hub.outbox)
	p.hub.posted(id, nil)
	return err
}

// SweepTopics implements journal.Topics.
func (p posting) SweepTopics(ctx context.Context, activeBefore time.Time, max int) (int, error) {
	n, err := p.Journal.SweepTopics(ctx, activeBefore, max)
	wake(p.hub.outbox)
	return n, err
}

// posted wakes the watchers of a topic, and the dispatcher if there may be an entry for it.
func (h *Hub) posted(id string, facts []*storagev1.TopicFact) {
	if slices.ContainsFunc(facts, func(f *storagev1.TopicFact) bool { return f.GetMessage() != nil || journal.EndsTasks(f) }) {
		wake(h.outbox)
	}
	if f := h.feeds.Find(id); f != nil {
		f.State.stale.Store(true)
		f.Wake()
	}
}

// wake sends a value unless one waits to be received.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// after returns the topic and its next records with facts after seq; complete is false if the watcher has to read them from the journal by itself.
func (f *watched) after(ctx context.Context, topics journal.Topics, id string, seq uint64) (t *journal.Topic, records []*record, complete bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topic == nil || f.stale.Load() {
		if err := f.read(ctx, topics, id); err != nil {
			return nil, nil, false, err
		}
	}
	switch {
	case seq >= f.topic.State.GetLastSeq():
		return f.topic, nil, true, nil
	case seq >= f.end:
		return nil, nil, false, nil
	}
	records, complete = f.tail.After(seq)
	return f.topic, records, complete, nil
}

// read adds the next records to the tail.
func (f *watched) read(ctx context.Context, topics journal.Topics, id string) (err error) {
	f.stale.Store(false)
	defer func() {
		if err != nil || f.end < f.topic.State.GetLastSeq() {
			f.stale.Store(true) // there are more than were read at once
		}
	}()
	if f.topic == nil {
		t, err := topics.Topic(ctx, id)
		if err == nil {
			f.topic, f.end = t, t.State.GetLastSeq()
		}
		return err
	}
	t, records, err := read(ctx, topics, id, f.end)
	if err != nil {
		return err
	}
	f.topic = t
	for _, r := range records {
		f.tail.Add(r, tailRecords, tailBytes, 1)
		f.end = r.Last
	}
	return nil
}

// read reads the next records of a topic after a seq, and then the topic.
func read(ctx context.Context, topics journal.Topics, id string, after uint64) (*journal.Topic, []*record, error) {
	found, err := topics.TopicRecords(ctx, id, after, feed.ReadBytes)
	if err != nil {
		return nil, nil, err
	}
	t, err := topics.Topic(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*record, 0, len(found))
	for _, r := range found {
		derive := func() []*conversationv1.TopicEvent { return view.TopicEvents(t, r) }
		records = append(records, feed.NewRecord(r.FirstSeq, len(r.GetFacts()), proto.Size(r.TopicRecord), derive))
	}
	return t, records, nil
}
