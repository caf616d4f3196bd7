package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// topicWrite is a change of a topic. Its messages are encoded before the batch begins, because all commits wait for the batch.
type topicWrite struct {
	id       uuid.UUID
	now      int64
	facts    []*storagev1.TopicFact
	record   []byte
	payloads []payload
	answers  uint64
	// interrupts names the agent that is interrupted; empty: none.
	interrupts string
	// settings are the new settings, or nil if they stay.
	settings *storagev1.Topic
	encoded  []byte
	summary  *checkedEntry
}

func encodeFacts(id uuid.UUID, now time.Time, facts []*storagev1.TopicFact) (w *topicWrite, err error) {
	w = &topicWrite{id: id, now: max(now.UnixNano(), 0), facts: facts}
	if len(facts) > 0 {
		w.record, w.payloads, err = encode(nil, &storagev1.TopicRecord{Time: w.now, Facts: facts})
	}
	if err != nil {
		return nil, invalidError("topic's record", err)
	}
	return w, nil
}

// encodePost returns the change that stores a post.
func encodePost(p *journal.Post) (*topicWrite, error) {
	id, err := parseID(p.TopicID)
	if err != nil {
		return nil, err
	}
	w, err := encodeFacts(id, p.Now, p.Facts)
	if err != nil {
		return nil, err
	}
	w.answers, w.interrupts = p.Answers, p.Interrupts
	if p.Summary != nil {
		value, payloads, err := encode(nil, p.Summary)
		if err != nil {
			return nil, invalidError("summary", err)
		}
		key := at(summaryPrefix(id, p.Summary.GetAgent()), p.Summary.GetToSeq())
		w.summary = &checkedEntry{key, withChecksum(key, value)}
		w.payloads = append(w.payloads, payloads...)
	}
	return w, nil
}

func (w *topicWrite) encodeSettings(t *storagev1.Topic) error {
	encoded, payloads, err := encode(nil, t)
	if err != nil {
		return invalidError("topic", err)
	}
	w.settings, w.encoded, w.payloads = t, encoded, append(w.payloads, payloads...)
	return nil
}

// lockLarge locks large if a change holds a large payload. The result unlocks it.
func (s *Store) lockLarge(r *storagev1.Record, p *journal.Post) (unlock func()) {
	large := proto.Size(r) >= largePayload
	if p != nil {
		large = large || proto.Size(&storagev1.TopicRecord{Facts: p.Facts}) >= largePayload
	}
	if !large {
		return func() {}
	}
	s.large.Lock()
	return s.large.Unlock
}

// preparePost encodes a post and stores its large payloads; nil if there is no post.
func (s *Store) preparePost(p *journal.Post) (*topicWrite, error) {
	if p == nil {
		return nil, nil
	}
	w, err := encodePost(p)
	if err == nil {
		err = s.storeLarge(w.payloads)
	}
	return w, err
}

// CreateTopic implements journal.Topics.
func (s *Store) CreateTopic(ctx context.Context, topicID string, settings *storagev1.Topic, facts []*storagev1.TopicFact, maxBytes int64) (string, bool, error) {
	if err := ctx.Err(); err != nil {
		return "", false, err
	}
	id, err := parseID(topicID)
	if err != nil {
		return "", false, err
	}
	full := s.admitBytes(settings.GetUserSub(), maxBytes)
	w, err := encodeFacts(id, time.Unix(0, settings.GetCreateTime()), facts)
	if err == nil {
		err = w.encodeSettings(settings)
	}
	if err == nil && full == nil {
		err = s.storeLarge(w.payloads)
	}
	if err != nil {
		return "", false, err
	}
	existing := uuid.Nil
	err = s.c.do(func(t *table, o *operation) (err error) {
		if existing, err = findTopic(t, id, settings); err != nil || existing != uuid.Nil {
			return err
		}
		if full != nil {
			return full
		}
		c, err := w.follow(nil)
		if err != nil {
			return err
		}
		if r := settings.GetRequestId(); r != "" {
			if err := put(t, topicRequestKey(settings.GetUserSub(), r), id[:]); err != nil {
				return err
			}
		}
		return c.put(t, o, s)
	})
	if err != nil {
		return "", false, err
	}
	if existing != uuid.Nil {
		return existing.String(), false, nil
	}
	return id.String(), true, nil
}

// findTopic returns the topic that this request created earlier, or uuid.Nil.
func findTopic(t *table, id uuid.UUID, settings *storagev1.Topic) (uuid.UUID, error) {
	if r := settings.GetRequestId(); r != "" {
		k := topicRequestKey(settings.GetUserSub(), r)
		v, err := get(t, k)
		switch {
		case err != nil:
			return uuid.Nil, err
		case len(v) == idSize:
			id = uuid.UUID(v)
		case v != nil:
			return uuid.Nil, damagedError(name(k), "it is not a topic's id")
		}
	}
	old, err := readTopic(t, id)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return uuid.Nil, nil
	case err != nil:
		return uuid.Nil, err
	case !bytes.Equal(old.GetRequestHash(), settings.GetRequestHash()):
		return uuid.Nil, journal.ErrRequestReused
	}
	return id, nil
}

// UpdateTopic implements journal.Topics.
func (s *Store) UpdateTopic(ctx context.Context, topicID string, settings *storagev1.Topic, now time.Time, facts []*storagev1.TopicFact) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(topicID)
	if err != nil {
		return err
	}
	w, err := encodeFacts(id, now, facts)
	if err == nil {
		err = w.encodeSettings(settings)
	}
	if err == nil {
		err = s.storeLarge(w.payloads)
	}
	if err != nil {
		return err
	}
	return s.c.do(func(t *table, o *operation) error {
		old, err := readTopic(t, id)
		if err != nil {
			return err
		}
		if old.GetRev()+1 != settings.GetRev() {
			return fmt.Errorf("rev %d does not follow %d: %w", settings.GetRev(), old.GetRev(), journal.ErrStale)
		}
		c, err := w.follow(old)
		if err != nil {
			return err
		}
		return c.put(t, o, s)
	})
}

// Post implements journal.Topics.
func (s *Store) Post(ctx context.Context, p journal.Post) (seq uint64, posted bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	defer s.lockLarge(nil, &p)()
	w, err := encodePost(&p)
	if err != nil {
		return 0, false, err
	}
	limited := s.file.view(func(t *table) error { return admit(t, kindPostWindow, p.User, p.Admission, false) })
	if limited == nil { // else the post is refused, unless it is repeated
		if err := s.storeLarge(w.payloads); err != nil {
			return 0, false, err
		}
	}
	err = s.c.do(func(t *table, o *operation) error {
		seq, posted = 0, false
		old, err := readTopic(t, w.id)
		if err != nil || p.Dispatched != 0 && !has(t, outgoingKey(p.Dispatched)) {
			return err
		}
		for _, f := range p.Facts {
			if seq, err = seqOfMessage(t, w.id, f.GetMessage().GetId()); err != nil || seq != 0 {
				return err
			}
		}
		if limited != nil {
			return limited
		}
		if err := admit(t, kindPostWindow, p.User, p.Admission, true); err != nil {
			return err
		}
		c, err := w.follow(old)
		if err != nil {
			return err
		}
		seq, posted = old.State.GetLastSeq()+1, true
		if p.Dispatched != 0 {
			t.Delete(outgoingKey(p.Dispatched))
		}
		return c.put(t, o, s)
	})
	return seq, posted && err == nil, err
}

// ofTask returns the change that stores the post of a task's transition; nil if there is no post or its topic does not exist. It leaves out messages whose ids
// the topic has.
func (w *topicWrite) ofTask(t *table) (*topicChange, error) {
	if w == nil {
		return nil, nil
	}
	old, err := readTopic(t, w.id)
	if errors.Is(err, journal.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	facts := make([]*storagev1.TopicFact, 0, len(w.facts))
	for _, f := range w.facts {
		seq, err := seqOfMessage(t, w.id, f.GetMessage().GetId())
		if err != nil {
			return nil, err
		}
		if seq == 0 {
			facts = append(facts, f)
		}
	}
	if len(facts) == len(w.facts) {
		return w.follow(old)
	}
	fewer, err := encodeFacts(w.id, time.Unix(0, w.now), facts)
	if err != nil {
		return nil, err
	}
	fewer.answers, fewer.summary, fewer.payloads = w.answers, w.summary, w.payloads // perhaps more than it needs
	return fewer.follow(old)
}

// seqOfMessage returns the seq of a message; 0 if there is none with this id.
func seqOfMessage(t *table, id uuid.UUID, messageID string) (uint64, error) {
	if messageID == "" {
		return 0, nil
	}
	seq, _, err := readNumber(t, messageIDKey(id, messageID))
	return seq, err
}

// topicChange is a change that follows the stored state of a topic.
type topicChange struct {
	*topicWrite
	// old is the topic before, or nil.
	old  *journal.Topic
	next *journal.Topic
	// messages are the new ones; outgoing are the seqs of the facts that go into the outbox.
	messages []postedMessage
	outgoing []uint64
}

type postedMessage struct {
	seq uint64
	id  string
}

// follow checks a change and returns it with the topic after it. old is nil for a new topic.
func (w *topicWrite) follow(old *journal.Topic) (*topicChange, error) {
	c := &topicChange{topicWrite: w, old: old, next: &journal.Topic{ID: w.id.String(), Topic: w.settings, State: &storagev1.TopicState{ActiveTime: w.now}}}
	if old != nil {
		c.next.State = proto.CloneOf(old.State)
	}
	if w.settings == nil {
		c.next.Topic = old.Topic
	}
	st := c.next.State
	st.Dispatches = slices.ContainsFunc(c.next.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetAgentId() != "" })
	if w.interrupts != "" {
		interrupt(st, w.interrupts)
	}
	for _, f := range w.facts {
		st.LastSeq++
		if r := f.GetRolledBack(); r != nil {
			if r.GetToSeq() >= st.LastSeq {
				return nil, fmt.Errorf("the rollback to seq %d is not after it: %w", r.GetToSeq(), journal.ErrInvalid)
			}
			rollBack(st, r.GetToSeq()+1)
		}
		if journal.EndsTasks(f) {
			c.outgoing = append(c.outgoing, st.LastSeq)
		}
		m := f.GetMessage()
		if m == nil {
			continue
		}
		if m.GetId() == "" || slices.ContainsFunc(c.messages, func(p postedMessage) bool { return p.id == m.GetId() }) {
			return nil, fmt.Errorf("the id %q of a message is empty or used twice: %w", m.GetId(), journal.ErrInvalid)
		}
		c.messages = append(c.messages, postedMessage{st.LastSeq, m.GetId()})
		st.MessageCount++
		st.ActiveTime = w.now
		switch {
		case w.answers != 0 && c.next.RolledBack(w.answers):
			rollBack(st, st.LastSeq)
		case st.GetDispatches():
			c.outgoing = append(c.outgoing, st.LastSeq)
		}
	}
	return c, nil
}

// interrupt records that an agent is interrupted now.
func interrupt(st *storagev1.TopicState, agent string) {
	for _, i := range st.GetInterruptions() {
		if i.GetAgent() == agent {
			i.Seq = st.GetLastSeq()
			return
		}
	}
	st.Interruptions = append(st.Interruptions, &storagev1.Interruption{Agent: agent, Seq: st.GetLastSeq()})
}

// rollBack marks the seqs from first to the last one.
func rollBack(st *storagev1.TopicState, first uint64) {
	all := st.GetRolledBack()
	for len(all) > 0 && all[len(all)-1].GetLast()+1 >= first {
		first = min(first, all[len(all)-1].GetFirst())
		all = all[:len(all)-1]
	}
	st.RolledBack = append(all, &storagev1.SeqRange{First: first, Last: st.GetLastSeq()})
}

// put stores the change, if it is not nil.
func (c *topicChange) put(t *table, o *operation, s *Store) error {
	if c == nil {
		return nil
	}
	entries, err := c.entries()
	if err != nil {
		return err
	}
	if s.usage.counts() {
		n := newPayloadBytes(t, kindTopic, c.id, c.payloads)
		for _, e := range entries {
			n += int64(len(e.key) + len(e.value))
			if replaced := t.Get(e.key); replaced != nil {
				n -= int64(len(e.key) + len(replaced))
			}
		}
		o.count(c.next.GetUserSub(), n)
	}
	for _, e := range entries {
		if err := t.Put(e.key, e.value); err != nil {
			return err
		}
	}
	for _, m := range c.messages {
		if err := t.Put(at(topicKey(c.id, partMessage), m.seq), nil); err != nil {
			return err
		}
		if err := put(t, messageIDKey(c.id, m.id), numberBytes(m.seq)); err != nil {
			return err
		}
	}
	for _, seq := range c.outgoing {
		value, err := proto.Marshal(&storagev1.Outgoing{TopicId: c.next.ID, Seq: seq})
		if err != nil {
			return invalidError("outbox", err)
		}
		if err := put(t, outgoingKey(t.NextSequence()), value); err != nil {
			return err
		}
	}
	if err := errors.Join(s.hooks.putTopicEvents(t, o, c), putPayloads(t, kindTopic, c.id, c.payloads)); err != nil {
		return err
	}
	return c.putIndexes(t)
}

// entries returns the entries of the topic that the change writes and that count as its bytes.
func (c *topicChange) entries() ([]checkedEntry, error) {
	state, err := proto.Marshal(c.next.State)
	if err != nil {
		return nil, invalidError("topic's state", err)
	}
	all := []checkedEntry{{topicKey(c.id, partState), state}}
	if c.settings != nil {
		all = append(all, checkedEntry{topicKey(c.id, partSettings), bytes.Clone(c.encoded)})
	}
	if len(c.facts) > 0 {
		first := c.next.State.GetLastSeq() - uint64(len(c.facts)) + 1
		all = append(all, checkedEntry{at(topicKey(c.id, partFacts), first), bytes.Clone(c.record)}) // the batch may run again with another seq
	}
	for i, e := range all {
		all[i].value = withChecksum(e.key, e.value)
	}
	if c.summary != nil {
		all = append(all, *c.summary)
	}
	return all, nil
}

// putIndexes updates the indexes in which the topic is.
func (c *topicChange) putIndexes(t *table) error {
	old, next := topicIndexKeys(c.id, c.old), topicIndexKeys(c.id, c.next)
	for k := range old {
		if !next[k] {
			t.Delete([]byte(k))
		}
	}
	for k := range next {
		if !old[k] {
			if err := t.Put([]byte(k), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// topicIndexKeys returns the keys of a topic in the indexes that change: of its users, and of archived topics.
func topicIndexKeys(id uuid.UUID, t *journal.Topic) map[string]bool {
	if t == nil {
		return nil
	}
	keys := map[string]bool{}
	for _, p := range t.GetParticipants() {
		if u := p.GetUserSub(); u != "" {
			keys[string(topicUserKey(u, t.State.GetActiveTime(), id))] = true
		}
	}
	if t.GetArchived() {
		keys[string(timedKey(kindArchived, t.State.GetActiveTime(), id))] = true
	}
	return keys
}

// Dispatched implements journal.Topics.
func (s *Store) Dispatched(ctx context.Context, numbers []uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.c.do(func(t *table, _ *operation) error {
		for _, no := range numbers {
			t.Delete(outgoingKey(no))
		}
		return nil
	})
}

// noteDispatched adds the agent of a new task to the entry of its message in the outbox, if it is there.
func noteDispatched(t *table, n journal.NewTask) error {
	k := outgoingKey(n.Outgoing)
	stored := t.Get(k)
	if n.Outgoing == 0 || stored == nil {
		return nil
	}
	entry := &storagev1.Outgoing{}
	if _, err := readMessage(t, k, stored, entry); err != nil {
		return err
	}
	entry.Agents = append(entry.Agents, n.Head.GetChat().GetAgent())
	value, err := proto.Marshal(entry)
	if err != nil {
		return invalidError("outbox", err)
	}
	return put(t, k, value)
}

// sweepTopic deletes the topic of an entry of the index of archived topics, if it is there.
func sweepTopic(t *table, o *operation, key []byte) error {
	if !has(t, key) {
		return nil // it was deleted or used meanwhile
	}
	id := idOf(key)
	topic, err := readTopic(t, id)
	if errors.Is(err, journal.ErrNotFound) {
		return damagedError(name(key), err)
	}
	if err != nil {
		return err
	}
	var keys [][]byte
	for k := range topicIndexKeys(id, topic) {
		keys = append(keys, []byte(k))
	}
	if r := topic.GetRequestId(); r != "" {
		keys = append(keys, topicRequestKey(topic.GetUserSub(), r))
	}
	removeEntries(t, o, topic.GetUserSub(), kindTopic, id, keys)
	return nil
}
