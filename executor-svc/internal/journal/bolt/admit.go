package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"pawl.dev/executor-svc/internal/journal"
)

// Admit implements journal.Tasks.
func (s *Store) Admit(_ context.Context, user string, a journal.Admission) error {
	if err := s.admitBytes(user, a.Bytes); err != nil {
		return err
	}
	return s.file.view(func(t *table) error { return admit(t, kindWindow, user, a, false) })
}

// admit keeps the times of a user's newest requests of a kind in a ring of as many places as the limit. A request is admitted if the request
// whose place it takes is older than the window; requests of tasks that have ended count too. If record is true, admit records the request.
func admit(t *table, kind byte, user string, a journal.Admission, record bool) error {
	if a.Requests <= 0 || a.Window <= 0 {
		return nil
	}
	counter := userPrefix(kind, user)
	count, _, err := readNumber(t, counter)
	if err != nil {
		return err
	}
	place := windowKey(kind, user, count%uint64(a.Requests))
	at, known, err := readNumber(t, place)
	if err != nil {
		return err
	}
	// A clock that was set back must not block a user for longer than the window.
	if wait := min(time.Unix(0, int64(at)).Add(a.Window).Sub(a.Now), a.Window); known && wait > 0 {
		return &journal.Limited{Requests: a.Requests, Window: a.Window, RetryAfter: wait}
	}
	if !record {
		return nil
	}
	return errors.Join(put(t, counter, numberBytes(count+1)), put(t, place, numberBytes(uint64(a.Now.UnixNano()))))
}

func readNumber(t *table, key []byte) (n uint64, known bool, err error) {
	v, err := get(t, key)
	if err != nil || v == nil {
		return 0, false, err
	}
	if len(v) != 8 {
		return 0, false, damagedError(name(key), "it is not a number")
	}
	return binary.BigEndian.Uint64(v), true, nil
}
