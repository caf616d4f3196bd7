package bolt

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// Kinds of keys: their first byte.
const (
	kindMeta         = 'm'
	kindTask         = 't'
	kindDue          = 'a'
	kindDeadline     = 'd'
	kindEnded        = 'e'
	kindUser         = 'u'
	kindStatus       = 'i'
	kindAgentTask    = 'f'
	kindConversation = 'c'
	kindRequest      = 'r'
	kindWindow       = 'w'
	kindPayload      = 'p'
	kindLarge        = 'l' // the size of a large payload
	kindChunk        = 'k' // a part of a large payload
	kindReference    = 'q'
	kindAgent        = 'g'
	kindTopic        = 'o'
	kindTopicUser    = 'h'
	kindTopicRequest = 'y'
	kindArchived     = 'v'
	kindOutgoing     = 'x'
	kindPostWindow   = 'n'
	kindWebhook      = 's'
	kindPending      = 'b' // a pending delivery of a webhook
	kindFailed       = 'j' // a failed one
)

// Parts of a task.
const (
	partHead       = 0x00
	partCheckpoint = 0x01
	partRecord     = 0x02
	partCommand    = 0x03
	partPayload    = 0x05
)

// Parts of a topic; its payloads are partPayload.
const (
	partSettings  = 0x00
	partState     = 0x01
	partFacts     = 0x02
	partMessage   = 0x03
	partMessageID = 0x04
	partSummary   = 0x06
)

// idSize is the size of the id of a task or topic in keys.
const idSize = 16

func parseID(id string) (uuid.UUID, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		// No task or topic can have such an id.
		return u, fmt.Errorf("%q: %w", id, journal.ErrNotFound)
	}
	return u, nil
}

// ownerPrefix is the prefix of the keys of a task or topic.
func ownerPrefix(kind byte, id uuid.UUID) []byte {
	return append(append(make([]byte, 0, 26), kind), id[:]...)
}

func taskKey(id uuid.UUID, part byte) []byte { return append(ownerPrefix(kindTask, id), part) }

func topicKey(id uuid.UUID, part byte) []byte { return append(ownerPrefix(kindTopic, id), part) }

func numberedKey(id uuid.UUID, part byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(taskKey(id, part), n)
}

// at appends a number to a copy of a prefix.
func at(prefix []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(prefix)+8), prefix...), n)
}

func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

func dueKey(id uuid.UUID) []byte {
	return append(append(make([]byte, 0, 1+idSize), kindDue), id[:]...)
}

// timedKey is the key of an index by time.
func timedKey(kind byte, nanos int64, id uuid.UUID) []byte {
	k := append(make([]byte, 0, 1+8+idSize), kind)
	return append(binary.BigEndian.AppendUint64(k, uint64(nanos)), id[:]...)
}

func timeOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[1:9])) }

func userPrefix(kind byte, user string) []byte {
	k := make([]byte, 0, len(user)+18)
	k = append(k, kind)
	k = append(k, user...)
	return append(k, 0)
}

func userKey(user string, id uuid.UUID) []byte { return append(userPrefix(kindUser, user), id[:]...) }

func conversationPrefix(user, conversation string) []byte {
	return append(append(userPrefix(kindConversation, user), conversation...), 0)
}

func requestKey(user, request string) []byte {
	return append(userPrefix(kindRequest, user), request...)
}

func windowKey(kind byte, user string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(userPrefix(kind, user), n)
}

func agentKey(user, id string) []byte { return append(userPrefix(kindAgent, user), id...) }

func payloadKey(sum hash) []byte { return append([]byte{kindPayload}, sum[:]...) }

func largeKey(sum hash) []byte { return append([]byte{kindLarge}, sum[:]...) }

func chunkKey(sum hash, n uint32) []byte {
	return binary.BigEndian.AppendUint32(append([]byte{kindChunk}, sum[:]...), n)
}

func referenceKey(sum hash, id uuid.UUID) []byte {
	return append(append(append(make([]byte, 0, 1+len(sum)+idSize), kindReference), sum[:]...), id[:]...)
}

// ownPayloadKey is the key by which a task or topic refers to a payload.
func ownPayloadKey(kind byte, id uuid.UUID, sum hash) []byte {
	return append(append(ownerPrefix(kind, id), partPayload), sum[:]...)
}

// messageIDKey is the key of the seq of a topic's message.
func messageIDKey(id uuid.UUID, messageID string) []byte {
	return append(topicKey(id, partMessageID), messageID...)
}

// summaryPrefix is the prefix of an agent's summaries of a topic, which are ordered by the seq that they reach to.
func summaryPrefix(id uuid.UUID, agent string) []byte {
	return append(append(topicKey(id, partSummary), agent...), 0)
}

// topicUserKey is the key of a topic in the index of a participant, which is ordered by the topics' newest messages.
func topicUserKey(user string, active int64, id uuid.UUID) []byte {
	return append(at(userPrefix(kindTopicUser, user), uint64(active)), id[:]...)
}

func topicRequestKey(user, request string) []byte {
	return append(userPrefix(kindTopicRequest, user), request...)
}

func outgoingKey(no uint64) []byte { return at([]byte{kindOutgoing}, no) }

func webhookKey(user string, id uuid.UUID) []byte {
	return append(userPrefix(kindWebhook, user), id[:]...)
}

// deliveryKey is the key of a delivery, of a kind for each state.
func deliveryKey(kind byte, webhook uuid.UUID, no uint64) []byte {
	return at(ownerPrefix(kind, webhook), no)
}

// idOf reads the id of a task or topic at the end of an index key.
func idOf(key []byte) uuid.UUID { return uuid.UUID(key[len(key)-idSize:]) }

// ownerOf reads the id in the key of a part of a task or topic.
func ownerOf(key []byte) uuid.UUID { return uuid.UUID(key[1 : 1+idSize]) }
