package bolt

import (
	"context"
	"encoding/binary"
	"time"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
)

// pruneAtOnce bounds how many requests of the past one request clears away: more than it adds.
const pruneAtOnce = 4

// Admit implements journal.Tasks.
func (s *Store) Admit(_ context.Context, user string, a journal.Admission) error {
	return s.view(func(b *table) error {
		reject, err := admit(b, user, a, false)
		if err != nil {
			return err
		}
		return reject
	})
}

// admit keeps the times of a user's requests, numbered: the one that is as many back as there may be in the window says
// whether a further one fits, whatever became of the tasks (A28).
func admit(b *table, user string, a journal.Admission, take bool) (reject, err error) {
	if a.Requests <= 0 || a.Window <= 0 {
		return nil, nil
	}
	prefix := userPrefix(kindWindow, user)
	next := nextNumber(b, prefix)
	if next >= uint64(a.Requests) {
		at, known, err := requestTime(b, user, next-uint64(a.Requests))
		if err != nil {
			return nil, err
		}
		// A clock that was set back keeps nobody out for longer than the window.
		if wait := min(at.Add(a.Window).Sub(a.Now), a.Window); known && wait > 0 {
			return &journal.Limited{Requests: a.Requests, Window: a.Window, RetryAfter: wait}, nil
		}
	}
	if !take {
		return nil, nil
	}
	if err := prune(b, prefix, next, a); err != nil {
		return nil, err
	}
	k := windowKey(user, next)
	return nil, b.Put(k, pack.Seal(k, binary.BigEndian.AppendUint64(make([]byte, 0, 8+4), uint64(a.Now.UnixNano()))))
}

// nextNumber returns one more than the highest number under a prefix.
func nextNumber(b *table, prefix []byte) uint64 {
	c := b.Cursor()
	end := append(append(make([]byte, 0, len(prefix)+9), prefix...), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
	k, _ := c.Seek(end)
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if !hasPrefix(k, prefix) || len(k) != len(prefix)+8 {
		return 0
	}
	return numberOf(k) + 1
}

func requestTime(b *table, user string, n uint64) (at time.Time, known bool, err error) {
	k := windowKey(user, n)
	v, err := get(b, k)
	if err != nil || v == nil {
		return time.Time{}, false, err
	}
	if len(v) != 8 {
		return time.Time{}, false, damaged(name(k), "it is no time")
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(v))), true, nil
}

// prune removes the oldest requests that are so far back that no window counts them. By number too: a request whose clock was
// overtaken asks for the one that is as many back as there may be.
func prune(b *table, prefix []byte, next uint64, a journal.Admission) error {
	var old [pruneAtOnce][]byte
	n := 0
	c := b.Cursor()
	for k, sealed := c.Seek(prefix); n < pruneAtOnce && hasPrefix(k, prefix); k, sealed = c.Next() {
		if len(k) == len(prefix)+8 && numberOf(k)+uint64(a.Requests) > next {
			break
		}
		v, err := unseal(k, sealed)
		if err != nil {
			return err
		}
		if len(v) == 8 && a.Now.UnixNano()-int64(binary.BigEndian.Uint64(v)) < int64(a.Window) {
			break
		}
		old[n] = append([]byte(nil), k...)
		n++
	}
	for _, k := range old[:n] {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
