package bolt

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Topic implements journal.Topics.
func (s *Store) Topic(_ context.Context, topicID string) (topic *journal.Topic, err error) {
	return viewTopic(s, topicID, readTopic)
}

// viewTopic runs read for a topic.
func viewTopic[T any](s *Store, topicID string, read func(t *table, id uuid.UUID) (T, error)) (result T, err error) {
	id, err := parseID(topicID)
	if err != nil {
		return result, err
	}
	err = s.file.view(func(t *table) error {
		result, err = read(t, id)
		return err
	})
	return result, err
}

// readTopic returns a topic; ErrNotFound if there is no such topic.
func readTopic(t *table, id uuid.UUID) (*journal.Topic, error) {
	settings, state := topicKey(id, partSettings), topicKey(id, partState)
	stored, storedState := t.Get(settings), t.Get(state)
	switch {
	case stored == nil && storedState == nil:
		return nil, fmt.Errorf("topic %s: %w", id, journal.ErrNotFound)
	case stored == nil:
		return nil, damagedError(name(settings), errMissing)
	case storedState == nil:
		return nil, damagedError(name(state), errMissing)
	}
	topic := &journal.Topic{ID: id.String(), Topic: &storagev1.Topic{}, State: &storagev1.TopicState{}}
	if _, err := readMessage(t, settings, stored, topic.Topic); err != nil {
		return nil, err
	}
	_, err := readMessage(t, state, storedState, topic.State)
	return topic, err
}

// TopicRecords implements journal.Topics.
func (s *Store) TopicRecords(_ context.Context, topicID string, after uint64, maxBytes int) ([]journal.TopicRecord, error) {
	return viewTopic(s, topicID, func(t *table, id uuid.UUID) ([]journal.TopicRecord, error) {
		return readTopicRecords(t, id, after, maxBytes)
	})
}

func readTopicRecords(t *table, id uuid.UUID, after uint64, maxBytes int) (all []journal.TopicRecord, err error) {
	read := func(key, value []byte, first uint64) (facts, size int, err error) {
		r := &storagev1.TopicRecord{}
		if size, err = readMessage(t, key, value, r); err == nil && first+uint64(len(r.GetFacts())) > after+1 {
			all = append(all, journal.TopicRecord{FirstSeq: first, TopicRecord: r})
		}
		return len(r.GetFacts()), size, err
	}
	lastSeq := func() (uint64, error) {
		topic, err := readTopic(t, id)
		if err != nil {
			return 0, err
		}
		return topic.State.GetLastSeq(), nil
	}
	err = scanRecords(t, topicKey(id, partFacts), after, maxBytes, read, lastSeq)
	return all, err
}

// Message implements journal.Topics.
func (s *Store) Message(_ context.Context, topicID, messageID string) (*journal.TopicMessage, error) {
	return viewTopic(s, topicID, func(t *table, id uuid.UUID) (*journal.TopicMessage, error) {
		topic, err := readTopic(t, id)
		if err != nil {
			return nil, err
		}
		seq, err := seqOfMessage(t, id, messageID)
		if err != nil {
			return nil, err
		}
		if seq == 0 {
			return nil, fmt.Errorf("message %q: %w", messageID, journal.ErrNotFound)
		}
		m, _, err := readTopicMessage(t, id, topic, seq)
		return m, err
	})
}

// readTopicMessage returns the message with a seq, and its size.
func readTopicMessage(t *table, id uuid.UUID, topic *journal.Topic, seq uint64) (*journal.TopicMessage, int, error) {
	k := firstRecordKey(t, topicKey(id, partFacts), seq-1)
	r := &storagev1.TopicRecord{}
	if stored := t.Get(k); stored != nil {
		if _, err := readMessage(t, k, stored, r); err != nil {
			return nil, 0, err
		}
	}
	first := numberOf(k)
	if seq < first || seq-first >= uint64(len(r.GetFacts())) || r.GetFacts()[seq-first].GetMessage() == nil {
		return nil, 0, damagedError(name(at(topicKey(id, partMessage), seq)), "it does not match the topic's facts")
	}
	f := r.GetFacts()[seq-first]
	m := &journal.TopicMessage{Seq: seq, Time: r.GetTime(), TaskID: f.GetTaskId(), RolledBack: topic.RolledBack(seq), TopicMessage: f.GetMessage()}
	return m, proto.Size(m.TopicMessage), nil
}

// Messages implements journal.Topics.
func (s *Store) Messages(_ context.Context, q journal.MessageQuery) (journal.MessagePage, error) {
	return viewTopic(s, q.TopicID, func(t *table, id uuid.UUID) (page journal.MessagePage, err error) {
		topic, err := readTopic(t, id)
		if err != nil {
			return page, err
		}
		size := 0
		for from := q.From; ; {
			seq := nextMessage(t, id, topic, from, q)
			if seq == 0 {
				return page, nil
			}
			if len(page.Messages) == q.Limit || q.MaxBytes > 0 && size >= q.MaxBytes {
				page.More = true
				return page, nil
			}
			m, n, err := readTopicMessage(t, id, topic, seq)
			if err != nil {
				return page, err
			}
			page.Messages = append(page.Messages, *m)
			size += n
			from = seq
		}
	})
}

// nextMessage returns the seq of the message that a list continues with after the seq from, or 0.
func nextMessage(t *table, id uuid.UUID, topic *journal.Topic, from uint64, q journal.MessageQuery) uint64 {
	prefix := topicKey(id, partMessage)
	for {
		var c *cursor
		switch {
		case q.OldestFirst && from == math.MaxUint64:
			return 0
		case q.OldestFirst:
			c = t.ascend(at(prefix, from+1))
		case from == 0:
			c = t.descend(topicKey(id, partMessage+1))
		default:
			c = t.descend(at(prefix, from))
		}
		if !c.next() || !hasPrefix(c.key, prefix) {
			return 0
		}
		seq := numberOf(c.key)
		i := slices.IndexFunc(topic.State.GetRolledBack(), func(r *storagev1.SeqRange) bool { return r.GetFirst() <= seq && seq <= r.GetLast() })
		switch {
		case i < 0 || q.RolledBack:
			return seq
		case q.OldestFirst:
			from = topic.State.GetRolledBack()[i].GetLast()
		default:
			from = topic.State.GetRolledBack()[i].GetFirst()
		}
	}
}

// Summary implements journal.Topics.
func (s *Store) Summary(_ context.Context, topicID, agent string) (*storagev1.TopicSummary, error) {
	return viewTopic(s, topicID, func(t *table, id uuid.UUID) (*storagev1.TopicSummary, error) {
		topic, err := readTopic(t, id)
		if err != nil {
			return nil, err
		}
		prefix := summaryPrefix(id, agent)
		// A summary of messages that were rolled back later reaches to one of them.
		for c := t.descend(append(at(prefix, math.MaxUint64), 0)); c.next() && hasPrefix(c.key, prefix); {
			if topic.RolledBack(numberOf(c.key)) {
				continue
			}
			m := &storagev1.TopicSummary{}
			_, err := readMessage(t, c.key, c.value, m)
			return m, err
		}
		return nil, nil
	})
}

// ListTopics implements journal.Topics.
func (s *Store) ListTopics(ctx context.Context, q journal.TopicQuery) (journal.TopicPage, error) {
	prefix := userPrefix(kindTopicUser, q.User)
	end := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 8+idSize+1)...)
	if q.From != "" {
		position, err := hex.DecodeString(q.From)
		if err != nil || len(position) != 8+idSize {
			return journal.TopicPage{}, fmt.Errorf("a list of topics cannot continue at %q: %w", q.From, journal.ErrInvalid)
		}
		end = append(bytes.Clone(prefix), position...)
	}
	var page journal.TopicPage
	for end != nil {
		if err := ctx.Err(); err != nil {
			return journal.TopicPage{}, err
		}
		err := s.file.view(func(t *table) (err error) {
			end, err = listTopicsBefore(t, q, prefix, end, &page)
			return err
		})
		if err != nil {
			return journal.TopicPage{}, err
		}
	}
	return page, nil
}

// listTopicsBefore adds topics whose key is less than end to the page. It returns the next end; nil once the page is complete.
func listTopicsBefore(t *table, q journal.TopicQuery, prefix, end []byte, page *journal.TopicPage) ([]byte, error) {
	c := t.descend(end)
	for range scanAtOnce {
		if !c.next() || !hasPrefix(c.key, prefix) {
			return nil, nil
		}
		if len(c.key) != len(prefix)+8+idSize {
			continue
		}
		topic, err := readTopic(t, idOf(c.key))
		if err != nil {
			return nil, damagedError(name(c.key), err)
		}
		if matchesTopic(q, topic) {
			if n := len(page.Topics); n == max(q.Limit, 1) {
				page.Next = positionOf(q.User, page.Topics[n-1])
				return nil, nil
			}
			page.Topics = append(page.Topics, topic)
		}
	}
	return bytes.Clone(c.key), nil
}

// positionOf returns the position after a topic in a user's list.
func positionOf(user string, t *journal.Topic) string {
	key := topicUserKey(user, t.State.GetActiveTime(), uuid.MustParse(t.ID))
	return hex.EncodeToString(key[len(key)-8-idSize:])
}

func matchesTopic(q journal.TopicQuery, t *journal.Topic) bool {
	return (q.Archived || !t.GetArchived()) && (q.AgentID == "" || slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool {
		return p.GetAgentId() == q.AgentID && p.GetAddedBy() == q.User
	}))
}

// Outbox implements journal.Topics.
func (s *Store) Outbox(_ context.Context, after uint64, limit int) (all []journal.Outgoing, err error) {
	if after == math.MaxUint64 {
		return nil, nil
	}
	err = s.file.view(func(t *table) error {
		for c := t.ascend(outgoingKey(after + 1)); len(all) < limit && c.next() && c.key[0] == kindOutgoing; {
			m := &storagev1.Outgoing{}
			if _, err := readMessage(t, c.key, c.value, m); err != nil {
				return err
			}
			all = append(all, journal.Outgoing{No: numberOf(c.key), Outgoing: m})
		}
		return nil
	})
	return all, err
}
