package bolt

import (
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// topicEntry checks an entry of a topic.
func (c *checker) topicEntry(k, v []byte) {
	if len(k) < idSize+2 {
		c.add(name(k), "its key is too short")
		return
	}
	id := ownerOf(k)
	switch part := k[idSize+1]; part {
	case partSettings:
		c.topic(id)
	case partPayload:
		c.ownPayload(k)
	case partMessage, partMessageID:
	case partState, partFacts, partSummary:
		value, err := verifyChecksum(k, v)
		c.cuts(k, value, err)
	default:
		c.add(name(k), "a topic has no such part")
		return
	}
	c.expect(k, has(c.t, topicKey(id, partSettings)), "its topic is missing", nil)
}

// topicIndex checks that an entry outside a topic's own keys matches the topic.
func (c *checker) topicIndex(k, v []byte) {
	switch k[0] {
	case kindTopicUser, kindArchived:
		if len(k) < 1+idSize {
			c.add(name(k), "its key is too short")
			return
		}
		topic, err := readTopic(c.t, idOf(k))
		c.expect(k, topicIndexKeys(idOf(k), topic)[string(k)], "the entry does not match the topic", err)
	case kindTopicRequest:
		if len(v) != idSize {
			c.add(name(k), "it is not a topic's id")
			return
		}
		topic, err := readTopic(c.t, uuid.UUID(v))
		c.expect(k, err != nil || string(topicRequestKey(topic.GetUserSub(), topic.GetRequestId())) == string(k), "the topic was created by another request", err)
	case kindOutgoing: // the topic may have been deleted
		_, err := readMessage(c.t, k, c.t.Get(k), &storagev1.Outgoing{})
		c.expect(k, true, "", err)
	}
}

// topic checks a topic as a whole: its indexes, facts and messages.
func (c *checker) topic(id uuid.UUID) {
	k := topicKey(id, partSettings)
	topic, err := readTopic(c.t, id)
	if err != nil {
		c.add(name(k), err)
		return
	}
	for key := range topicIndexKeys(id, topic) {
		c.expect([]byte(key), has(c.t, []byte(key)), "it is missing", nil)
	}
	if r := topic.GetRequestId(); r != "" {
		key := topicRequestKey(topic.GetUserSub(), r)
		c.expect(key, has(c.t, key), "it is missing", nil)
	}
	last := uint64(0)
	for _, r := range topic.State.GetRolledBack() {
		c.expect(k, last < r.GetFirst() && r.GetFirst() <= r.GetLast() && r.GetLast() <= topic.State.GetLastSeq(), "what was rolled back is not in order", nil)
		last = r.GetLast()
	}
	c.facts(id, topic)
}

// facts checks the facts of a topic, and that each message is in the indexes of messages, and nothing else.
func (c *checker) facts(id uuid.UUID, topic *journal.Topic) {
	what := "records of topic " + id.String()
	messages := map[uint64]string{}
	after := uint64(0)
	for {
		rs, err := readTopicRecords(c.t, id, after, 1<<20)
		if err != nil {
			c.add(what, err)
			return
		}
		if len(rs) == 0 {
			break
		}
		for _, r := range rs {
			for i, f := range r.GetFacts() {
				if m := f.GetMessage(); m != nil {
					messages[r.FirstSeq+uint64(i)] = m.GetId()
				}
			}
			after = r.FirstSeq + uint64(len(r.GetFacts())) - 1
		}
	}
	if after != topic.State.GetLastSeq() || uint64(len(messages)) != topic.State.GetMessageCount() {
		c.add(what, fmt.Sprintf("they end at seq %d with %d messages, not at %d with %d", after, len(messages), topic.State.GetLastSeq(), topic.State.GetMessageCount()))
	}
	ids := map[string]uint64{}
	for seq, m := range messages {
		ids[m] = seq
		c.expect(at(topicKey(id, partMessage), seq), has(c.t, at(topicKey(id, partMessage), seq)), "it is missing", nil)
		indexed, err := seqOfMessage(c.t, id, m)
		c.expect(messageIDKey(id, m), indexed == seq, fmt.Sprintf("it names the fact %d instead of %d", indexed, seq), err)
	}
	for part, known := range map[byte]func(key []byte) bool{
		partMessage:   func(key []byte) bool { _, ok := messages[numberOf(key)]; return ok && len(key) == idSize+2+8 },
		partMessageID: func(key []byte) bool { return ids[string(key[idSize+2:])] != 0 },
	} {
		prefix := topicKey(id, part)
		for cursor := c.t.ascend(prefix); cursor.next() && hasPrefix(cursor.key, prefix); {
			c.expect(cursor.key, len(cursor.key) > idSize+2 && known(cursor.key), "there is no such message", nil)
		}
	}
}
