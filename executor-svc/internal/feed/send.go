package feed

import (
	"context"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

const (
	// ReadBytes bounds the bytes of records that a watcher reads from the journal at once, unless one record is larger.
	ReadBytes = 256 << 10
	// freeBytes of records are not counted against the budget of watchers.
	freeBytes = 64 << 10
	// encodedFactor times the bytes of its records is what a watcher holds: the events, and their JSON on the way to a client.
	encodedFactor = 3
)

// Sender sends events to one watcher.
type Sender[E Event] struct {
	// Budget bounds the bytes of events that watchers hold, and User is the one whose share is used.
	Budget *serve.Budget
	User   string
	// Read returns the next records after a seq, from memory or from the journal.
	Read func(ctx context.Context, after uint64) ([]*Record[E], error)
	Send func(E) error
	// After is the seq of the last event that was sent.
	After uint64
}

// Next sends the events of the next records, until sent returns true for one.
func (s *Sender[E]) Next(ctx context.Context, sent func(E) (last bool)) error {
	records, held, err := s.read(ctx)
	if err != nil {
		return err
	}
	defer held.Release()
	for _, r := range records {
		for _, e := range r.Events() {
			if e.GetSeq() <= s.After {
				continue
			}
			if err := s.Send(e); err != nil {
				return err
			}
			if s.After = e.GetSeq(); sent(e) {
				return nil
			}
		}
	}
	if sizeOf(records) > freeBytes {
		return inproc.Flush(ctx) // the bytes are held until the client has them
	}
	return nil
}

// read reads the next records, whose bytes count against the user's budget while they are held. A watcher that waits for the budget, because others do
// not read, holds no records: it reads them again afterwards.
func (s *Sender[E]) read(ctx context.Context) (records []*Record[E], held *serve.Holding, err error) {
	for most := int64(freeBytes); ; {
		records, err = s.Read(ctx, s.After)
		size := sizeOf(records)
		if err == nil && size <= most {
			return records, held, nil
		}
		held.Release()
		if err != nil {
			return nil, nil, err
		}
		if held = s.Budget.TryAcquire(s.User, encodedFactor*size); held != nil {
			return records, held, nil
		}
		most = size
		if held, err = s.Budget.Acquire(ctx, s.User, encodedFactor*size); err != nil {
			return nil, nil, err
		}
	}
}

func sizeOf[E Event](records []*Record[E]) (n int64) {
	for _, r := range records {
		n += int64(r.Size)
	}
	return n
}

// Wait waits until there may be more records. It returns an error once ctx is done, stopping is closed or the server stops.
func Wait(ctx context.Context, more, stopping <-chan struct{}) error {
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-stopping:
	case <-serve.Stopping(ctx):
	}
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; watch again when it is back, from the seq of the last event that you saw: tasks and topics go on then")
}
