package topic

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// watchBytes bounds the bytes of records that are read at once, unless one record is larger.
	watchBytes = 256 << 10
	// freeBytes of records are not counted against the budget of watchers.
	freeBytes = 64 << 10
	// encodedFactor times the bytes of its records is what a watcher holds: the events, and their JSON on the way to a client.
	encodedFactor = 3
)

// Watch is what a user watches.
type Watch struct {
	TopicID string
	UserSub string
	// After is the seq of the last event that the user has.
	After uint64
	// NoFollow ends the watch once all committed events were sent.
	NoFollow bool
}

// Watch calls send for each event of a topic. It returns nil once the user was removed from the topic. journal.ErrNotFound if the topic was deleted.
func (h *Hub) Watch(ctx context.Context, req Watch, send func(*conversationv1.TopicEvent) error) error {
	w := h.watch(req.TopicID)
	defer h.unwatch(w)
	s := &sender{hub: h, watcher: w, user: req.UserSub, after: req.After, send: send}
	serverStopping := serve.Stopping(ctx)
	for {
		t, err := s.next(ctx)
		switch {
		case err != nil || s.left:
			return err
		case s.after < t.State.GetLastSeq():
			continue
		case req.NoFollow || !participates(t, req.UserSub):
			return nil
		}
		select {
		case <-w.more:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.stopping:
			return watchStopped()
		case <-serverStopping:
			return watchStopped()
		}
	}
}

// sender sends the events of a topic to one watcher.
type sender struct {
	hub     *Hub
	watcher *watcher
	user    string
	send    func(*conversationv1.TopicEvent) error
	// after is the seq of the last event that was sent.
	after uint64
	// left is set when the event was sent by which the user was removed.
	left bool
}

// next sends the next events, and returns the topic.
func (s *sender) next(ctx context.Context) (*journal.Topic, error) {
	t, records, held, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	defer held.Release()
	removed := !participates(t, s.user)
	for _, r := range records {
		for _, e := range r.events() {
			if e.GetSeq() <= s.after {
				continue
			}
			if err := s.send(e); err != nil {
				return nil, err
			}
			s.after = e.GetSeq()
			if removed && e.GetParticipantLeft().GetParticipant().GetUserSub() == s.user {
				s.left = true
				return t, nil
			}
		}
	}
	if sizeOf(records) > freeBytes {
		return t, inproc.Flush(ctx) // the bytes are held until the client has them
	}
	return t, nil
}

// read returns the topic and its next records, whose bytes count against the user's budget while they are held. A watcher that waits for the budget,
// because others do not read, holds no records: it reads them again afterwards.
func (s *sender) read(ctx context.Context) (t *journal.Topic, records []*record, held *serve.Holding, err error) {
	for most := int64(freeBytes); ; {
		var complete bool
		if t, records, complete, err = s.watcher.feed.after(ctx, s.hub.topics, s.after); err == nil && !complete {
			t, records, err = s.readAlone(ctx)
		}
		size := sizeOf(records)
		if err == nil && size <= most {
			return t, records, held, nil
		}
		held.Release()
		if err != nil {
			return nil, nil, nil, err
		}
		if held = s.hub.budget.TryAcquire(s.user, encodedFactor*size); held != nil {
			return t, records, held, nil
		}
		most = size
		if held, err = s.hub.budget.Acquire(ctx, s.user, encodedFactor*size); err != nil {
			return nil, nil, nil, err
		}
	}
}

// readAlone reads records that are not in memory.
func (s *sender) readAlone(ctx context.Context) (*journal.Topic, []*record, error) {
	select {
	case s.hub.reading <- struct{}{}:
		defer func() { <-s.hub.reading }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return read(ctx, s.hub.topics, s.watcher.feed.id, s.after)
}

// sizeOf returns the bytes of records.
func sizeOf(records []*record) (n int64) {
	for _, r := range records {
		n += int64(r.size)
	}
	return n
}

func participates(t *journal.Topic, user string) bool {
	return slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetUserSub() == user })
}

// watchStopped returns the error that ends a watch at shutdown.
func watchStopped() error {
	return errs.New(codes.Unavailable, commonv1.ErrorReason_ERROR_REASON_SHUTTING_DOWN,
		"the executor is stopping; watch the topic again when it is back, from the seq of the last event that you saw")
}
