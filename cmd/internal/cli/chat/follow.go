package chat

import (
	"context"
	"errors"
	"io"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
)

// item is an event of a topic, or the error that ended the stream.
type item struct {
	event *conversationv1.TopicEvent
	err   error
}

const (
	// maxFutileStreams is how many streams in a row without a new event follow accepts.
	maxFutileStreams = 5
	futileWait       = 100 * time.Millisecond
)

// follow sends the events of a topic after a seq, each exactly once, and reconnects as needed. It closes the channel after an item with an error, or when
// ctx is done.
func follow(ctx context.Context, s *discover.Session, topicID string, after uint64) <-chan item {
	out := make(chan item)
	send := func(i item) bool {
		select {
		case out <- i:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(out)
		for futile := 1; ctx.Err() == nil; futile++ {
			server, err := s.Server(ctx)
			before := after
			if err == nil {
				if err = stream(ctx, s, topicID, &after, send); discover.Gone(err) {
					_, err = s.Reconnect(ctx, server)
				}
			}
			if after > before {
				futile = 0
			}
			if err == nil && futile > maxFutileStreams {
				err = ui.Errorf("the event stream of topic %s broke off %d times without a new event", topicID, maxFutileStreams)
			}
			if err != nil {
				send(item{err: err})
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(futile) * futileWait):
			}
		}
	}()
	return out
}

// stream reads one stream and counts *after up.
func stream(ctx context.Context, s *discover.Session, topicID string, after *uint64, send func(item) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := s.Topics.WatchTopic(ctx, &conversationv1.WatchTopicRequest{TopicId: topicID, AfterSeq: *after})
	if err != nil {
		return err
	}
	for {
		ev, err := events.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case ev.GetSeq() <= *after:
			continue
		}
		*after = ev.GetSeq()
		if !send(item{event: ev}) {
			return ctx.Err()
		}
	}
}
