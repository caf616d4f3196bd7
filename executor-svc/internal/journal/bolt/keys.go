package bolt

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

const (
	partHead       = 0x00
	partCheckpoint = 0x01
	partRecord     = 0x02
	partCommand    = 0x03
)

func rawID(id string) (uuid.UUID, error) {
	u, err := uuid.Parse(id)
	if err != nil {
		// No task can have such an id.
		return u, fmt.Errorf("task %q: %w", id, journal.ErrNotFound)
	}
	return u, nil
}

func taskKey(id uuid.UUID, part byte) []byte {
	k := make([]byte, 0, 26)
	k = append(k, 't')
	k = append(k, id[:]...)
	return append(k, part)
}

func numberedKey(id uuid.UUID, part byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(taskKey(id, part), n)
}

func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

func runnableKey(id uuid.UUID) []byte { return append([]byte{'a'}, id[:]...) }

func userPrefix(kind byte, user string) []byte {
	k := make([]byte, 0, len(user)+18)
	k = append(k, kind)
	k = append(k, user...)
	return append(k, 0)
}

func conversationPrefix(user, conversation string) []byte {
	return append(append(userPrefix('c', user), conversation...), 0)
}

func requestKey(user, request string) []byte { return append(userPrefix('r', user), request...) }

func agentKey(user, id string) []byte { return append(userPrefix('g', user), id...) }

// idOf reads the task id at the end of an index key.
func idOf(key []byte) uuid.UUID { return uuid.UUID(key[len(key)-16:]) }
