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

// Hub wakes the watchers of topics, and the dispatcher. Watchers pull records, so that a slow one delays no other. The first watcher that is awake reads a new
// record from the journal, for all watchers of its topic.
type Hub struct {
	topics journal.Topics
	// outbox receives a value when there may be a new entry in the outbox.
	outbox chan struct{}
	// budget bounds the bytes of events that watchers hold, and reading how many of them read the journal alone at once.
	budget  *serve.Budget
	reading chan struct{}
	// stopping is closed by Stop.
	stopping chan struct{}

	mu    sync.Mutex // guards feeds
	feeds map[string]*feed
}

// feed has the newest records of a watched topic. It exists while it has watchers.
type feed struct {
	id string

	watching sync.Mutex // guards watchers; taken after Hub.mu, and held only shortly, because posts take it
	watchers []*watcher

	// stale is set when records were posted that no watcher has read.
	stale atomic.Bool
	mu    sync.Mutex // guards the fields below; held while the journal is read
	// topic was read after the records in tail; nil until a watcher has read.
	topic *journal.Topic
	// tail holds the newest records up to the seq end, and size their bytes. It begins with the records that are posted while the topic is watched.
	tail []*record
	end  uint64
	size int
}

// watcher watches one topic.
type watcher struct {
	feed *feed
	// more receives a value when records were posted that the watcher has not seen.
	more chan struct{}
}

// record is a record whose events are derived once for all watchers.
type record struct {
	journal.TopicRecord
	topic   *journal.Topic
	size    int // bytes
	once    sync.Once
	derived []*conversationv1.TopicEvent
}

func (r *record) events() []*conversationv1.TopicEvent {
	r.once.Do(func() { r.derived, r.topic = view.TopicEvents(r.topic, r.TopicRecord), nil })
	return r.derived
}

func (r *record) lastSeq() uint64 { return r.FirstSeq + uint64(len(r.GetFacts())) - 1 }

// maxReading is how many watchers read the journal alone at once: what they read may have to wait for the budget.
const maxReading = 2

// NewHub returns a hub for the topics of a journal, whose posts go through Wrap. The budget bounds the bytes of events that watchers hold.
func NewHub(topics journal.Topics, budget *serve.Budget) *Hub {
	return &Hub{
		topics: topics, budget: budget, outbox: make(chan struct{}, 1), reading: make(chan struct{}, maxReading), stopping: make(chan struct{}),
		feeds: map[string]*feed{},
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
	h.mu.Lock()
	f := h.feeds[id]
	h.mu.Unlock()
	if f == nil {
		return
	}
	f.stale.Store(true)
	f.watching.Lock()
	defer f.watching.Unlock()
	for _, w := range f.watchers {
		wake(w.more)
	}
}

// wake sends a value unless one waits to be received.
func wake(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// watch adds a watcher.
func (h *Hub) watch(id string) *watcher {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[id]
	if f == nil {
		f = &feed{id: id}
		h.feeds[id] = f
	}
	w := &watcher{feed: f, more: make(chan struct{}, 1)}
	f.watching.Lock()
	defer f.watching.Unlock()
	f.watchers = append(f.watchers, w)
	return w
}

// unwatch removes a watcher.
func (h *Hub) unwatch(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := w.feed
	f.watching.Lock()
	defer f.watching.Unlock()
	f.watchers = slices.DeleteFunc(f.watchers, func(other *watcher) bool { return other == w })
	if len(f.watchers) == 0 {
		delete(h.feeds, f.id)
	}
}

// after returns the topic and its next records with facts after seq; complete is false if the watcher has to read them from the journal by itself.
func (f *feed) after(ctx context.Context, topics journal.Topics, seq uint64) (t *journal.Topic, records []*record, complete bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.topic == nil || f.stale.Load() {
		if err := f.read(ctx, topics); err != nil {
			return nil, nil, false, err
		}
	}
	switch {
	case seq >= f.topic.State.GetLastSeq():
		return f.topic, nil, true, nil
	case seq >= f.end, len(f.tail) == 0, f.tail[0].FirstSeq > seq+1:
		return nil, nil, false, nil
	}
	unseen := len(f.tail) - 1
	for unseen > 0 && f.tail[unseen-1].lastSeq() > seq {
		unseen--
	}
	return f.topic, f.tail[unseen:len(f.tail):len(f.tail)], true, nil
}

// read adds the next records to the tail.
func (f *feed) read(ctx context.Context, topics journal.Topics) (err error) {
	f.stale.Store(false)
	defer func() {
		if err != nil || f.end < f.topic.State.GetLastSeq() {
			f.stale.Store(true) // there are more than were read at once
		}
	}()
	if f.topic == nil {
		t, err := topics.Topic(ctx, f.id)
		if err == nil {
			f.topic, f.end = t, t.State.GetLastSeq()
		}
		return err
	}
	t, records, err := read(ctx, topics, f.id, f.end)
	if err != nil {
		return err
	}
	f.topic = t
	for _, r := range records {
		f.tail = append(f.tail, r)
		f.size += r.size
		f.end = r.lastSeq()
	}
	for len(f.tail) > tailRecords || f.size > tailBytes && len(f.tail) > 1 {
		f.size -= f.tail[0].size
		f.tail = f.tail[1:]
	}
	return nil
}

// read reads the next records of a topic after a seq, and then the topic.
func read(ctx context.Context, topics journal.Topics, id string, after uint64) (*journal.Topic, []*record, error) {
	found, err := topics.TopicRecords(ctx, id, after, watchBytes)
	if err != nil {
		return nil, nil, err
	}
	t, err := topics.Topic(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	records := make([]*record, 0, len(found))
	for _, r := range found {
		records = append(records, &record{TopicRecord: r, topic: t, size: proto.Size(r.TopicRecord)})
	}
	return t, records, nil
}
