package bolt

import (
	"sync"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// usage counts the bytes of each user's tasks and of the topics that the user created, from the first request that limits them on. It is in memory: after a restart it is counted again.
type usage struct {
	mu    sync.Mutex       // guards bytes
	bytes map[string]int64 // by user; nil until they are needed
}

func (u *usage) counts() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes != nil
}

// add changes a user's bytes after the change is durable.
func (u *usage) add(user string, bytes int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes == nil || bytes == 0 {
		return
	}
	if u.bytes[user] += bytes; u.bytes[user] <= 0 {
		delete(u.bytes, user)
	}
}

// admitBytes returns *journal.Full if a user's tasks and topics take limit bytes or more; 0 means no limit.
func (s *Store) admitBytes(user string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	if !s.usage.counts() {
		if err := s.countUsage(); err != nil {
			return err
		}
	}
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	if used := s.usage.bytes[user]; used >= limit {
		return &journal.Full{Used: used, Limit: limit}
	}
	return nil
}

// countUsage counts the bytes of all tasks and topics. Changes wait meanwhile, so that each is counted once: here, or when it is published.
func (s *Store) countUsage() error {
	s.file.writing.Lock()
	defer s.file.writing.Unlock()
	if s.usage.counts() {
		return nil
	}
	bytes, err := s.scanUsage()
	if err == nil {
		s.usage.mu.Lock()
		defer s.usage.mu.Unlock()
		s.usage.bytes = bytes
	}
	return err
}

func (s *Store) scanUsage() (map[string]int64, error) {
	bytes := map[string]int64{}
	err := s.file.view(func(t *table) error {
		for c := t.ascend([]byte{kindTask}); c.next() && c.key[0] == kindTask; {
			if len(c.key) != idSize+2 || c.key[idSize+1] != partHead {
				continue
			}
			id := ownerOf(c.key)
			if head, err := readHead(t, id); err == nil { // a damaged task is reported when it is read
				bytes[head.GetUserSub()] += bytesOf(t, kindTask, id)
			}
		}
		for c := t.ascend([]byte{kindTopic}); c.next() && c.key[0] == kindTopic; {
			if len(c.key) != idSize+2 || c.key[idSize+1] != partSettings {
				continue
			}
			id := ownerOf(c.key)
			if topic, err := readTopic(t, id); err == nil {
				bytes[topic.GetUserSub()] += bytesOf(t, kindTopic, id)
			}
		}
		return nil
	})
	return bytes, err
}

// bytesOf returns how many bytes a task or topic counts for.
func bytesOf(t *table, kind byte, id uuid.UUID) (n int64) {
	prefix := ownerPrefix(kind, id)
	for c := t.ascend(prefix); c.next() && hasPrefix(c.key, prefix); {
		n += bytesOfEntry(t, c.key, c.value)
	}
	return n
}

// bytesOfEntry returns how many bytes an entry of a task or topic counts for. The parts of a topic that count have the numbers of a task's.
func bytesOfEntry(t *table, key, value []byte) int64 {
	if len(key) < idSize+2 {
		return 0
	}
	switch part := key[idSize+1]; {
	case part == partHead, part == partCheckpoint, part == partRecord, part == partSummary:
		return int64(len(key) + len(value))
	case part == partPayload && len(key) == idSize+2+len(hash{}):
		return payloadBytes(t, hash(key[idSize+2:]))
	}
	return 0
}

func payloadBytes(t *table, sum hash) int64 {
	if v := t.Get(payloadKey(sum)); v != nil {
		return int64(len(v) - checksumSize)
	}
	size, _, _ := readNumber(t, largeKey(sum)) // 0 if it is damaged, which is reported when it is read
	return int64(size)
}

// newBytes returns by how many bytes storing the transition changes what its task counts for.
func (w *storedTransition) newBytes(t *table) (n int64) {
	n = int64(len(w.checkpoint.value) - len(t.Get(w.checkpoint.key)))
	for _, r := range w.records {
		n += int64(len(r.key) + len(r.value))
	}
	return n + newPayloadBytes(t, kindTask, w.id, w.payloads)
}

// newPayloadBytes returns the size of the payloads that a task or topic does not refer to yet.
func newPayloadBytes(t *table, kind byte, id uuid.UUID, all []payload) (n int64) {
	seen := map[hash]bool{}
	for _, p := range all {
		if !seen[p.sum] && !has(t, ownPayloadKey(kind, id, p.sum)) {
			n += int64(len(p.data))
		}
		seen[p.sum] = true
	}
	return n
}
