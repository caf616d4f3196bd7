package bolt

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/pack"
	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Send implements journal.Tasks.
func (s *Store) Send(ctx context.Context, taskID string, c *storagev1.Command) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := rawID(taskID)
	if err != nil {
		return 0, err
	}
	wire, err := proto.Marshal(c)
	if err != nil {
		return 0, invalid("command", err)
	}
	blob, large := pack.Blob(make([]byte, 0, len(wire)+8), pack.Command, wire)
	w := &write{}
	w.addPayloads(large)
	var no uint64
	err = s.c.do(func(b *table, o *op) (reject, err error) {
		st, err := storedState(b, id)
		switch {
		case err != nil:
			return err, nil
		case st == nil:
			return journal.ErrNotFound, nil
		}
		e, err := storedDue(b, id)
		if err != nil {
			return err, nil
		}
		if e.no == 0 {
			head, err := readHead(b, id)
			if err != nil {
				return err, nil
			}
			e.id, e.user = id, head.GetUserSub()
		}
		// The bucket's sequence is part of the file: numbers grow across restarts, and never come twice.
		if no, err = b.NextSequence(); err != nil {
			return nil, err
		}
		k := numberedKey(id, partCommand, no)
		if err := b.Put(k, pack.Seal(k, append([]byte(nil), blob...))); err != nil {
			return nil, err
		}
		if err := putPayloads(b, id, w.payloads); err != nil {
			return nil, err
		}
		e.commands, e.sent = true, 1
		if !state.Ended(st.Status) {
			e.deadline = st.Deadline
		}
		return nil, e.put(b, o)
	})
	return no, err
}

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

// Renew implements journal.Tasks: claims last as long as this process.
func (s *Store) Renew(_ context.Context, claims []journal.Claim, _ time.Time, _ time.Duration) ([]string, error) {
	if s.c.isClosed() {
		return nil, journal.ErrClosed
	}
	return s.due.lost(claims), nil
}

// Yield implements journal.Tasks.
func (s *Store) Yield(_ context.Context, taskID string, epoch uint64) error {
	id, err := rawID(taskID)
	if err != nil {
		return err
	}
	if s.c.isClosed() {
		return journal.ErrClosed
	}
	s.due.yield(id, epoch)
	return nil
}
