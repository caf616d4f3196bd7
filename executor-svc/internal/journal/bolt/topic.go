package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	// interrupts is an interruption, or nil.
	interrupts *storagev1.Interruption
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

// DeleteTopic implements journal.Topics.
func (s *Store) DeleteTopic(ctx context.Context, topicID string, rev uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(topicID)
	if err != nil {
		return err
	}
	return s.c.do(func(t *table, o *operation) error {
		topic, err := readTopic(t, id)
		switch {
		case err != nil:
			return err
		case topic.GetRev() != rev:
			return journal.ErrStale
		}
		return s.removeTopic(t, o, id, topic)
	})
}

// sweepTopic deletes the topic of an entry of the index of archived topics, if it is there.
func (s *Store) sweepTopic(t *table, o *operation, key []byte) error {
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
	return s.removeTopic(t, o, id, topic)
}

// removeTopic deletes a topic, disables its webhooks, and puts its deletion into the outbox if it has agents.
func (s *Store) removeTopic(t *table, o *operation, id uuid.UUID, topic *journal.Topic) error {
	if owners := journal.AgentOwners(topic.Topic); len(owners) > 0 {
		value, err := proto.Marshal(&storagev1.Outgoing{TopicId: topic.ID, DeletedOwners: owners})
		if err != nil {
			return invalidError("outbox", err)
		}
		if err := put(t, outgoingKey(t.NextSequence()), value); err != nil {
			return err
		}
	}
	if err := s.hooks.endTopic(t, o, topic.ID); err != nil {
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
