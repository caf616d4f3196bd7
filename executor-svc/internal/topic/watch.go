package topic

import (
	"context"
	"slices"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"

	"pawl.dev/executor-svc/internal/feed"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
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
	w := h.feeds.Watch(req.TopicID)
	defer h.feeds.Unwatch(w)
	var t *journal.Topic
	s := &feed.Sender[*conversationv1.TopicEvent]{Budget: h.budget, User: req.UserSub, Send: send, After: req.After}
	s.Read = func(ctx context.Context, after uint64) (records []*record, err error) {
		var complete bool
		if t, records, complete, err = w.Feed.State.after(ctx, h.topics, req.TopicID, after); err == nil && !complete {
			t, records, err = h.readAlone(ctx, req.TopicID, after)
		}
		return records, err
	}
	for {
		removed := false
		err := s.Next(ctx, func(e *conversationv1.TopicEvent) bool {
			removed = !participates(t, req.UserSub) && e.GetParticipantLeft().GetParticipant().GetUserSub() == req.UserSub
			return removed
		})
		switch {
		case err != nil || removed:
			return err
		case s.After < t.State.GetLastSeq():
			continue
		case req.NoFollow || !participates(t, req.UserSub):
			return nil
		}
		if err := feed.Wait(ctx, w.More, h.stopping); err != nil {
			return err
		}
	}
}

// readAlone reads records that are not in memory.
func (h *Hub) readAlone(ctx context.Context, id string, after uint64) (*journal.Topic, []*record, error) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	return read(ctx, h.topics, id, after)
}

func participates(t *journal.Topic, user string) bool {
	return slices.ContainsFunc(t.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetUserSub() == user })
}
