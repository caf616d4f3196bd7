package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"time"

	"pawl.dev/executor-svc/internal/journal"
)

// pruneAtOnce bounds how many old requests one request removes: more than it adds.
const pruneAtOnce = 4

// Admit implements journal.Tasks.
func (s *Store) Admit(_ context.Context, user string, a journal.Admission) error {
	return s.file.view(func(t *table) error {
		reject, err := admit(t, user, a, false)
		if err != nil {
			return err
		}
		return reject
	})
}

// admit keeps the times of a user's requests, numbered. If N requests are allowed in a window, the Nth last one decides
// whether another fits; finished tasks count too (A28).
func admit(t *table, user string, a journal.Admission, take bool) (reject, err error) {
	if a.Requests <= 0 || a.Window <= 0 {
		return nil, nil
	}
	prefix := userPrefix(kindWindow, user)
	next := nextNumber(t, prefix)
	if next >= uint64(a.Requests) {
		at, known, err := requestTime(t, user, next-uint64(a.Requests))
		if err != nil {
			return nil, err
		}
		// A clock that was set back must not block a user for longer than the window.
		if wait := min(at.Add(a.Window).Sub(a.Now), a.Window); known && wait > 0 {
			return &journal.Limited{Requests: a.Requests, Window: a.Window, RetryAfter: wait}, nil
		}
	}
	if !take {
		return nil, nil
	}
	if err := prune(t, prefix, next, a); err != nil {
		return nil, err
	}
	return nil, put(t, windowKey(user, next), numberBytes(uint64(a.Now.UnixNano())))
}

// nextNumber returns one more than the highest number under a prefix.
func nextNumber(t *table, prefix []byte) uint64 {
	end := append(bytes.Clone(prefix), bytes.Repeat([]byte{0xff}, 9)...)
	c := t.descend(end)
	if !c.next() || !hasPrefix(c.key, prefix) || len(c.key) != len(prefix)+8 {
		return 0
	}
	return numberOf(c.key) + 1
}

func requestTime(t *table, user string, n uint64) (at time.Time, known bool, err error) {
	k := windowKey(user, n)
	v, err := get(t, k)
	if err != nil || v == nil {
		return time.Time{}, false, err
	}
	if len(v) != 8 {
		return time.Time{}, false, damaged(name(k), "it is no time")
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v))), true, nil
}

// prune removes the oldest requests that no window counts. It keeps by number too, because a request whose clock was
// overtaken by another one's asks for the Nth last.
func prune(t *table, prefix []byte, next uint64, a journal.Admission) error {
	var old [][]byte
	for c := t.ascend(prefix); len(old) < pruneAtOnce && c.next() && hasPrefix(c.key, prefix); {
		if len(c.key) == len(prefix)+8 && numberOf(c.key)+uint64(a.Requests) > next {
			break
		}
		v, err := verifyChecksum(c.key, c.value)
		if err != nil {
			return err
		}
		if len(v) == 8 && a.Now.UnixNano()-int64(binary.BigEndian.Uint64(v)) < int64(a.Window) {
			break
		}
		old = append(old, bytes.Clone(c.key))
	}
	for _, k := range old {
		if err := t.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
