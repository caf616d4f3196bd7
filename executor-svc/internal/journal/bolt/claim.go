package bolt

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
)

// Claim implements journal.Tasks.
func (s *Store) Claim(ctx context.Context, r journal.ClaimRequest) (journal.Claims, error) {
	if err := ctx.Err(); err != nil {
		return journal.Claims{}, err
	}
	if s.c.isClosed() {
		return journal.Claims{}, journal.ErrClosed
	}
	return s.due.claim(r), nil
}

// Renew implements journal.Tasks. Claims last as long as this process.
func (s *Store) Renew(_ context.Context, claims []journal.Claim, _ time.Time, _ time.Duration) ([]string, error) {
	if s.c.isClosed() {
		return nil, journal.ErrClosed
	}
	return s.due.lost(claims), nil
}

// Yield implements journal.Tasks.
func (s *Store) Yield(_ context.Context, taskID string, epoch uint64) error {
	id, err := parseID(taskID)
	if err != nil {
		return err
	}
	if s.c.isClosed() {
		return journal.ErrClosed
	}
	s.due.yield(id, epoch)
	return nil
}

// dueEntry is an entry of the index of due tasks.
type dueEntry struct {
	dueChange
	// seq orders the tasks by when they became due; 0: the task is not in the index.
	seq uint64
}

const (
	flagRuns     = 1
	flagCommands = 2
	flagTurn     = 4 // the turn follows the user after a zero byte
)

// put adds the change to the operation, and stores the entry if the task is due, else removes it from the index.
func (e *dueEntry) put(t *table, o *operation) error {
	o.changes = append(o.changes, e.dueChange)
	k := dueKey(e.id)
	if !e.runs && !e.commands {
		if e.seq != 0 {
			t.Delete(k)
		}
		return nil
	}
	if e.seq == 0 {
		e.seq = t.NextSequence()
	}
	flags := byte(0)
	if e.runs {
		flags |= flagRuns
	}
	if e.commands {
		flags |= flagCommands
	}
	user := e.user
	if e.turn != "" {
		flags |= flagTurn
		user += "\x00" + e.turn
	}
	v := append(binary.AppendUvarint(make([]byte, 0, 16+len(user)), e.seq), flags)
	return put(t, k, append(v, user...))
}

// storedDue returns the entry of a task in the index; the zero entry if it has none.
func storedDue(t *table, id uuid.UUID) (dueEntry, error) {
	k := dueKey(id)
	stored := t.Get(k)
	if stored == nil {
		return dueEntry{}, nil
	}
	return readDueEntry(k, stored)
}

func readDueEntry(key, stored []byte) (dueEntry, error) {
	v, err := verifyChecksum(key, stored)
	if err != nil {
		return dueEntry{}, err
	}
	seq, n := binary.Uvarint(v)
	if n <= 0 || len(v) == n || len(key) != 1+idSize {
		return dueEntry{}, damagedError(name(key), "it is too short")
	}
	e := dueEntry{seq: seq, dueChange: dueChange{
		id: idOf(key), runs: v[n]&flagRuns != 0, commands: v[n]&flagCommands != 0, user: string(v[n+1:]),
	}}
	if v[n]&flagTurn != 0 {
		e.user, e.turn, _ = strings.Cut(e.user, "\x00")
	}
	return e, nil
}

// load reads the tasks that are due, in the order in which they became due, and those with a deadline.
func (d *due) load(t *table) error {
	entries := map[uuid.UUID]*dueEntry{}
	var order []*dueEntry
	add := func(e dueEntry) {
		entries[e.id] = &e
		order = append(order, &e)
	}
	for c := t.ascend([]byte{kindDue}); c.next() && c.key[0] == kindDue; {
		e, err := readDueEntry(c.key, c.value)
		if err != nil {
			return err
		}
		if e.commands {
			e.sent = 1
		}
		add(e)
	}
	for c := t.ascend([]byte{kindDeadline}); c.next() && c.key[0] == kindDeadline; {
		user, err := verifyChecksum(c.key, c.value)
		if err != nil {
			return err
		}
		if len(c.key) != 1+8+idSize {
			return damagedError(name(c.key), "its key has the wrong size")
		}
		id := idOf(c.key)
		if entries[id] == nil {
			add(dueEntry{dueChange: dueChange{id: id, user: string(user)}})
		}
		entries[id].deadline = timeOf(c.key)
	}
	slices.SortStableFunc(order, func(a, b *dueEntry) int { return cmp.Compare(a.seq, b.seq) })
	for _, e := range order {
		d.apply(e.dueChange)
	}
	return nil
}
