package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/view"
)

// maxData is the size up to which an event is delivered whole.
const maxData = 64 << 10

// errLeft means that the webhook's owner no longer participates in the topic.
var errLeft = errors.New("you no longer participate in the topic")

// body returns what is posted for a delivery: the type, the time and the event in the JSON of REST. An event that is too large, or whose task or topic was
// deleted, is reduced to where and when it happened.
func (s *Sender) body(ctx context.Context, ref journal.WebhookRef, d *storagev1.Delivery) ([]byte, error) {
	if err := enter(ctx, s.reading); err != nil { // a record may be large
		return nil, err
	}
	defer func() { <-s.reading }()
	at := time.Unix(0, d.GetCreateTime())
	whole, reduced, err := s.event(ctx, ref, d)
	if err != nil && !errors.Is(err, journal.ErrNotFound) {
		return nil, err
	}
	if err == nil && proto.Size(whole) <= maxData {
		return envelope(d.GetEventType(), at, whole)
	}
	return envelope(d.GetEventType(), at, reduced)
}

// event returns the event of a delivery, whole and reduced. ErrNotFound if its task or topic was deleted.
func (s *Sender) event(ctx context.Context, ref journal.WebhookRef, d *storagev1.Delivery) (whole, reduced proto.Message, err error) {
	at, before := timestamppb.New(time.Unix(0, d.GetCreateTime())), d.GetSeq()-1
	if d.GetTopicId() == "" {
		reduced = &executorv1.ExecutorEvent{TaskId: d.GetTaskId(), Seq: d.GetSeq(), Time: at}
		task, err := s.Journal.Load(ctx, d.GetTaskId())
		if err != nil {
			return nil, reduced, err
		}
		records, err := s.Journal.Records(ctx, d.GetTaskId(), before, 1)
		if err != nil || len(records) == 0 {
			return nil, reduced, errors.Join(err, journal.ErrNotFound)
		}
		events := view.Events(task, records[0])
		i := slices.IndexFunc(events, func(e *executorv1.ExecutorEvent) bool { return e.GetSeq() == d.GetSeq() })
		if i < 0 {
			return nil, reduced, fmt.Errorf("the event %d of task %s cannot be read", d.GetSeq(), d.GetTaskId())
		}
		e := events[i]
		return e, &executorv1.ExecutorEvent{TaskId: e.GetTaskId(), Seq: e.GetSeq(), Time: at, Type: e.GetType(), Flow: e.GetFlow(), WaitId: e.GetWaitId()}, nil
	}
	reduced = &conversationv1.TopicEvent{TopicId: d.GetTopicId(), Seq: d.GetSeq(), CreateTime: at}
	topic, err := s.Journal.Topic(ctx, d.GetTopicId())
	if err != nil {
		return nil, reduced, err
	}
	if !slices.ContainsFunc(topic.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetUserSub() == ref.User }) {
		return nil, reduced, errLeft
	}
	records, err := s.Journal.TopicRecords(ctx, d.GetTopicId(), before, 1)
	if err != nil || len(records) == 0 {
		return nil, reduced, errors.Join(err, journal.ErrNotFound)
	}
	events := view.TopicEvents(topic, records[0])
	i := slices.IndexFunc(events, func(e *conversationv1.TopicEvent) bool { return e.GetSeq() == d.GetSeq() })
	if i < 0 {
		return nil, reduced, fmt.Errorf("the event %d of topic %s cannot be read", d.GetSeq(), d.GetTopicId())
	}
	e := events[i]
	return e, &conversationv1.TopicEvent{TopicId: e.GetTopicId(), Seq: e.GetSeq(), CreateTime: at, Type: e.GetType(), Agent: e.GetAgent(), MessageId: e.GetMessageId(), TaskId: e.GetTaskId()}, nil
}

// envelope returns the body of a post.
func envelope(eventType string, at time.Time, data proto.Message) ([]byte, error) {
	inner := []byte("{}")
	if data != nil {
		var err error
		if inner, err = protojson.Marshal(data); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(struct {
		Type      string          `json:"type"`
		Timestamp string          `json:"timestamp"`
		Data      json.RawMessage `json:"data"`
	}{eventType, at.UTC().Format(time.RFC3339Nano), inner})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer // compact, because protojson's spaces vary from build to build
	err = json.Compact(&out, raw)
	return out.Bytes(), err
}
