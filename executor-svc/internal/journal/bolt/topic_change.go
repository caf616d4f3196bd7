package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// topicChange is a change that follows the stored state of a topic.
type topicChange struct {
	*topicWrite
	// old is the topic before, or nil.
	old  *journal.Topic
	next *journal.Topic
	// messages are the new ones; outgoing are the entries of the outbox.
	messages []postedMessage
	outgoing []*storagev1.Outgoing
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
	send := func(i *storagev1.Interruption) {
		c.outgoing = append(c.outgoing, &storagev1.Outgoing{TopicId: c.next.ID, Seq: st.GetLastSeq(), Interruption: i})
	}
	if w.interrupts != nil {
		i := proto.CloneOf(w.interrupts)
		i.Seq = st.GetLastSeq()
		st.Interruptions = append(slices.DeleteFunc(st.Interruptions, func(old *storagev1.Interruption) bool { return old.GetAgent() == i.GetAgent() }), i)
		send(i)
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
			send(nil)
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
			send(nil)
		}
	}
	return c, nil
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
	for _, entry := range c.outgoing {
		value, err := proto.Marshal(entry)
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
