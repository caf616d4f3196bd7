package journal

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// ErrTooMany refuses a webhook beyond the number that a user may have.
var ErrTooMany = errors.New("too many")

// Webhooks stores webhooks, per user, and their deliveries. A delivery is stored with the commit of its event, for each webhook that is enabled and wants
// the event.
type Webhooks interface {
	// PutWebhook stores a webhook. With ifRev 0 the webhook must not exist (ErrExists) and the user must have fewer than limit (ErrTooMany); otherwise the stored
	// webhook must have rev ifRev (ErrStale, ErrNotFound).
	PutWebhook(ctx context.Context, ref WebhookRef, w *storagev1.Webhook, ifRev uint64, limit int) error
	// Webhook returns a webhook. ErrNotFound.
	Webhook(ctx context.Context, ref WebhookRef) (*storagev1.Webhook, error)
	// ListWebhooks returns a user's webhooks with ids greater than after, by id.
	ListWebhooks(ctx context.Context, user, after string, limit int) ([]WebhookEntry, error)
	// DeleteWebhook removes a webhook with its deliveries. With ifRev other than 0 the stored webhook must have rev ifRev (ErrStale). ErrNotFound.
	DeleteWebhook(ctx context.Context, ref WebhookRef, ifRev uint64) error
	// Deliveries returns the deliveries of a webhook with numbers greater than after, oldest first.
	Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error)
	// Delivery returns a delivery, and whether it has failed. ErrNotFound.
	Delivery(ctx context.Context, webhookID string, no uint64) (d *storagev1.Delivery, failed bool, err error)
	// PutDelivery stores what an attempt changed in a delivery, as pending or as failed. Of the failed ones, the newest MaxFailedDeliveries are kept. ErrStale if
	// the delivery was redelivered during the attempt, ErrNotFound.
	PutDelivery(ctx context.Context, webhookID string, d Delivery, failed bool) error
	// FailOldest makes the oldest pending deliveries of a webhook failed, with an error, so that keep stay pending, and returns how many.
	FailOldest(ctx context.Context, webhookID string, keep int, reason string) (int, error)
	// Redeliver makes a delivery pending and due, as if its event came at the time now, in Unix nanoseconds, and returns it. ErrNotFound.
	Redeliver(ctx context.Context, webhookID string, no uint64, now int64) (Delivery, error)
	// Delivered removes a pending delivery.
	Delivered(ctx context.Context, webhookID string, no uint64) error
	// PendingWebhooks returns the webhooks that have pending deliveries.
	PendingWebhooks(ctx context.Context) ([]WebhookRef, error)
	// OnDelivery sets the function that is called for a webhook after a delivery was stored for it. The function must not block.
	OnDelivery(notify func(WebhookRef))
}

// MaxFailedDeliveries is how many failed deliveries of a webhook are kept.
const MaxFailedDeliveries = 1000

// WebhookRef names a webhook.
type WebhookRef struct {
	User string
	// ID is a UUID.
	ID string
}

// WebhookEntry is a webhook with its id.
type WebhookEntry struct {
	ID string
	*storagev1.Webhook
}

// DeliveryQuery selects deliveries.
type DeliveryQuery struct {
	WebhookID string
	// Failed selects the failed deliveries, otherwise the pending ones.
	Failed bool
	After  uint64
	Limit  int
}

// Delivery is a delivery with its number.
type Delivery struct {
	No uint64
	*storagev1.Delivery
}

// The types of events, by the names of the facts' kinds where these differ from the names of the events.
var (
	taskEventTypes  = map[string]string{"goal_not_reached": "flow_failed"}
	topicEventTypes = map[string]string{
		"message": "new_message", "rolled_back": "messages_rolled_back", "participant_updated": "topic_participants_updated",
		"agent_decision": "agent_decision_made", "stream_chunk": "agent_stream_chunk", "stream_done": "agent_stream_done", "process": "process_event",
	}
)

// TaskEventType returns the type of a fact's event, such as task.flow_success.
func TaskEventType(f *storagev1.Fact) string { return "task." + eventName(f, taskEventTypes) }

// TopicEventType returns the type of a fact's event, such as topic.new_message.
func TopicEventType(f *storagev1.TopicFact) string { return "topic." + eventName(f, topicEventTypes) }

func eventName(fact proto.Message, names map[string]string) string {
	m := fact.ProtoReflect()
	kind := m.WhichOneof(m.Descriptor().Oneofs().ByName(protoreflect.Name("kind")))
	if kind == nil {
		return ""
	}
	if name, ok := names[string(kind.Name())]; ok {
		return name
	}
	return string(kind.Name())
}

// WantsTaskEvent returns the type of a task's event, and whether the webhook wants it. Without types, a webhook wants the events that ask a person and that
// end a task.
func WantsTaskEvent(w *storagev1.Webhook, f *storagev1.Fact) (eventType string, wants bool) {
	eventType = TaskEventType(f)
	if len(w.GetEventTypes()) > 0 {
		return eventType, slices.Contains(w.GetEventTypes(), eventType)
	}
	switch f.GetKind().(type) {
	case *storagev1.Fact_StepWaitingForStart, *storagev1.Fact_StepWaitingForParam, *storagev1.Fact_InputRequired:
		return eventType, true
	case *storagev1.Fact_PlanCreated:
		return eventType, f.GetWaitId() != ""
	case *storagev1.Fact_FlowSuccess, *storagev1.Fact_FlowFailed, *storagev1.Fact_GoalNotReached, *storagev1.Fact_FlowCancel:
		return eventType, true
	}
	return eventType, false
}

// WantsTopicEvent returns the type of a topic's event, and whether the webhook wants it. Without types, a webhook wants messages.
func WantsTopicEvent(w *storagev1.Webhook, f *storagev1.TopicFact) (eventType string, wants bool) {
	eventType = TopicEventType(f)
	if len(w.GetEventTypes()) > 0 {
		return eventType, slices.Contains(w.GetEventTypes(), eventType)
	}
	return eventType, f.GetMessage() != nil
}
