package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/identity"
	"pawl.dev/services/page"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/webhook"
)

// maxWebhooks is how many webhooks a user may have.
const maxWebhooks = 20

// Webhooks implements WebhookService.
type Webhooks struct {
	executorv1.UnsafeWebhookServiceServer
	Deps
	topics *Topics
}

var _ executorv1.WebhookServiceServer = (*Webhooks)(nil)

// load returns a webhook of the caller.
func (s *Webhooks) load(ctx context.Context, id string) (journal.WebhookRef, *storagev1.Webhook, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return journal.WebhookRef{}, nil, err
	}
	ref := journal.WebhookRef{User: who.Sub, ID: strings.ToLower(id)}
	w, err := s.Journal.Webhook(ctx, ref)
	return ref, w, apiError(err, webhookNotFound(id))
}

func webhookNotFound(id string) error {
	return errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_WEBHOOK_NOT_FOUND,
		"there is no webhook %s; list yours with `pawl webhooks` or GET /v1/webhooks", id)
}

// CreateWebhook implements WebhookService.
func (s *Webhooks) CreateWebhook(ctx context.Context, req *executorv1.CreateWebhookRequest) (*executorv1.Webhook, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	hash, err := requestHash(req)
	if err != nil {
		return nil, err
	}
	in, now := req.GetWebhook(), time.Now()
	ref := journal.WebhookRef{User: who.Sub, ID: uuid.Must(uuid.NewV7()).String()}
	if r := req.GetRequestId(); r != "" { // so that a repeated request finds the webhook of the first one
		sum := sha256.Sum256([]byte("webhook\x00" + who.Sub + "\x00" + r))
		ref.ID = uuid.UUID(sum[:16]).String()
	}
	w := &storagev1.Webhook{
		DisplayName: in.GetDisplayName(), Url: in.GetUrl(), TopicId: strings.ToLower(in.GetTopicId()), AgentId: in.GetAgentId(), EventTypes: in.GetEventTypes(),
		Disabled: in.GetDisabled(), CreateTime: now.UnixNano(), UpdateTime: now.UnixNano(), Rev: 1, RequestId: req.GetRequestId(), RequestHash: hash,
	}
	if err := cmp.Or(s.checkSource(ctx, who, w), s.check(w)); err != nil {
		return nil, err
	}
	secret := s.Sender.Secrets.Add(ref, w, now)
	err = s.Journal.PutWebhook(ctx, ref, w, 0, maxWebhooks)
	switch {
	case errors.Is(err, journal.ErrExists):
		return s.existing(ctx, ref, hash)
	case errors.Is(err, journal.ErrTooMany):
		return nil, errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED,
			"you have %d webhooks, and no more are allowed; delete one with `pawl webhooks delete` or DELETE /v1/webhooks/{id}", maxWebhooks)
	case err != nil:
		return nil, apiError(err, nil)
	}
	s.Sender.Audited(ctx, "created", ref, w)
	out := webhookView(ref.ID, w)
	out.Secret = secret
	return out, nil
}

// existing returns the webhook that an earlier, equal request created. Its secret is returned too, because the first response may have been lost.
func (s *Webhooks) existing(ctx context.Context, ref journal.WebhookRef, hash []byte) (*executorv1.Webhook, error) {
	w, err := s.Journal.Webhook(ctx, ref)
	if err != nil {
		return nil, apiError(err, webhookNotFound(ref.ID))
	}
	if !slices.Equal(w.GetRequestHash(), hash) {
		return nil, apiError(journal.ErrRequestReused, nil)
	}
	out := webhookView(ref.ID, w)
	out.Secret, err = s.Sender.Secrets.Newest(ref, w)
	if err != nil {
		return nil, errs.New(codes.FailedPrecondition, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, "%w", err)
	}
	return out, nil
}

// checkSource refuses a topic or an agent that the caller does not have.
func (s *Webhooks) checkSource(ctx context.Context, who identity.Principal, w *storagev1.Webhook) error {
	switch {
	case w.GetTopicId() != "" && w.GetAgentId() != "":
		return invalidField("webhook.agent_id", "set together with topic_id", "topic_id and agent_id are set; create two webhooks")
	case w.GetTopicId() != "":
		_, err := s.topics.enter(ctx, w.GetTopicId())
		return err
	case w.GetAgentId() != "":
		_, err := s.Journal.Agent(ctx, who.Sub, w.GetAgentId())
		return apiError(err, agentNotFound(w.GetAgentId()))
	}
	return nil
}

// check refuses a URL that cannot be used and unknown types of events.
func (s *Webhooks) check(w *storagev1.Webhook) error {
	if err := s.Sender.Receivers.Check(w.GetUrl()); err != nil {
		return invalidField("webhook.url", "cannot be used", "the webhook's url cannot be used: %w", err)
	}
	names, prefix, kindPrefix := executorv1.EventType_value, "task.", "EVENT_TYPE_"
	if w.GetTopicId() != "" {
		names, prefix, kindPrefix = conversationv1.TopicEventType_value, "topic.", "TOPIC_EVENT_TYPE_"
	}
	for _, t := range w.GetEventTypes() {
		name, ok := strings.CutPrefix(t, prefix)
		if n, known := names[kindPrefix+strings.ToUpper(name)]; !ok || !known || n == 0 || t != strings.ToLower(t) {
			return invalidField("webhook.event_types", strconv.Quote(t)+" is unknown",
				"%q is not the type of an event of the webhook's source; write %s and the name of an event, such as %s", t, prefix, example[prefix])
		}
	}
	return nil
}

var example = map[string]string{"task.": "task.flow_success", "topic.": "topic.new_message"}

// GetWebhook implements WebhookService.
func (s *Webhooks) GetWebhook(ctx context.Context, req *executorv1.GetWebhookRequest) (*executorv1.Webhook, error) {
	ref, w, err := s.load(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return webhookView(ref.ID, w), nil
}

// ListWebhooks implements WebhookService.
func (s *Webhooks) ListWebhooks(ctx context.Context, req *executorv1.ListWebhooksRequest) (*executorv1.ListWebhooksResponse, error) {
	who, err := identity.FromContext(ctx)
	if err != nil {
		return nil, err
	}
	scope := "webhooks/" + who.Sub
	after, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	n := int(cmp.Or(req.GetPageSize(), 50))
	found, err := s.Journal.ListWebhooks(ctx, who.Sub, string(after), n+1)
	if err != nil {
		return nil, apiError(err, nil)
	}
	out := &executorv1.ListWebhooksResponse{}
	if len(found) > n {
		found = found[:n]
		out.NextPageToken = page.Encode(scope, []byte(found[n-1].ID))
	}
	for _, e := range found {
		out.Webhooks = append(out.Webhooks, webhookView(e.ID, e.Webhook))
	}
	return out, nil
}

// UpdateWebhook implements WebhookService.
func (s *Webhooks) UpdateWebhook(ctx context.Context, req *executorv1.UpdateWebhookRequest) (*executorv1.Webhook, error) {
	in, fields := req.GetWebhook(), req.GetUpdateMask().GetPaths()
	for _, f := range fields {
		if !slices.Contains([]string{"*", "display_name", "url", "event_types", "disabled"}, f) {
			return nil, invalidField("update_mask", strconv.Quote(f)+" cannot be changed",
				"update_mask names %q, which cannot be changed; name display_name, url, event_types or disabled", f)
		}
	}
	names := func(field string, set bool) bool {
		return slices.Contains(fields, field) || slices.Contains(fields, "*") || len(fields) == 0 && set
	}
	return s.change(ctx, in.GetId(), in.GetEtag(), "updated", func(_ journal.WebhookRef, w *storagev1.Webhook) error {
		if names("display_name", in.GetDisplayName() != "") {
			w.DisplayName = in.GetDisplayName()
		}
		if names("url", in.GetUrl() != "") {
			w.Url = in.GetUrl()
		}
		if names("event_types", len(in.GetEventTypes()) > 0) {
			w.EventTypes = in.GetEventTypes()
		}
		if names("disabled", in.GetDisabled()) {
			w.Disabled, w.DisabledReason = in.GetDisabled(), ""
		}
		return s.check(w)
	})
}

// change applies an edit to a webhook and stores it. If another change came first, it applies the edit again.
func (s *Webhooks) change(ctx context.Context, id, etag, change string, edit func(journal.WebhookRef, *storagev1.Webhook) error) (*executorv1.Webhook, error) {
	for {
		ref, w, err := s.load(ctx, id)
		if err != nil {
			return nil, err
		}
		rev := w.GetRev()
		if etag != "" && etag != strconv.FormatUint(rev, 10) {
			return nil, apiError(journal.ErrStale, nil)
		}
		if err := edit(ref, w); err != nil {
			return nil, err
		}
		w.Rev, w.UpdateTime = rev+1, time.Now().UnixNano()
		err = s.Journal.PutWebhook(ctx, ref, w, rev, 0)
		if errors.Is(err, journal.ErrStale) {
			continue
		}
		if err != nil {
			return nil, apiError(err, webhookNotFound(id))
		}
		s.Sender.Audited(ctx, change, ref, w)
		s.Sender.Wake(ref)
		return webhookView(ref.ID, w), nil
	}
}

// DeleteWebhook implements WebhookService.
func (s *Webhooks) DeleteWebhook(ctx context.Context, req *executorv1.DeleteWebhookRequest) (*executorv1.DeleteWebhookResponse, error) {
	ref, w, err := s.load(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	rev := uint64(0)
	if req.GetEtag() != "" {
		if rev = w.GetRev(); req.GetEtag() != strconv.FormatUint(rev, 10) {
			return nil, apiError(journal.ErrStale, nil)
		}
	}
	if err := s.Journal.DeleteWebhook(ctx, ref, rev); err != nil {
		return nil, apiError(err, webhookNotFound(req.GetId()))
	}
	s.Sender.Audited(ctx, "deleted", ref, w)
	return &executorv1.DeleteWebhookResponse{}, nil
}

// RotateWebhookSecret implements WebhookService.
func (s *Webhooks) RotateWebhookSecret(ctx context.Context, req *executorv1.RotateWebhookSecretRequest) (*executorv1.Webhook, error) {
	secret := ""
	out, err := s.change(ctx, req.GetId(), "", "secret_rotated", func(ref journal.WebhookRef, w *storagev1.Webhook) error {
		secret = s.Sender.Secrets.Add(ref, w, time.Now())
		return nil
	})
	if err != nil {
		return nil, err
	}
	out.Secret = secret
	return out, nil
}

// TestWebhook implements WebhookService.
func (s *Webhooks) TestWebhook(ctx context.Context, req *executorv1.TestWebhookRequest) (*executorv1.TestWebhookResponse, error) {
	ref, w, err := s.load(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	r, err := s.Sender.Ping(ctx, ref, w)
	if err != nil {
		return nil, apiError(err, nil)
	}
	return &executorv1.TestWebhookResponse{
		Delivered: r.Problem == "", HttpStatus: uint32(r.Status), Error: r.Problem, Duration: durationpb.New(r.Took),
	}, nil
}

// ListWebhookDeliveries implements WebhookService.
func (s *Webhooks) ListWebhookDeliveries(ctx context.Context, req *executorv1.ListWebhookDeliveriesRequest) (*executorv1.ListWebhookDeliveriesResponse, error) {
	ref, _, err := s.load(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	states := []executorv1.WebhookDeliveryState{executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_FAILED, executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_PENDING}
	if one := req.GetState(); one != 0 {
		states = []executorv1.WebhookDeliveryState{one}
	}
	scope := "deliveries/" + ref.ID + "/" + req.GetState().String()
	token, err := page.Decode(scope, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, _ := strconv.ParseUint(string(token), 10, 64)
	n := int(cmp.Or(req.GetPageSize(), 50))
	var all []*executorv1.WebhookDelivery
	for _, state := range states {
		found, err := s.Journal.Deliveries(ctx, journal.DeliveryQuery{
			WebhookID: ref.ID, Failed: state == executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_FAILED, After: after, Limit: n + 1,
		})
		if err != nil {
			return nil, apiError(err, webhookNotFound(req.GetWebhookId()))
		}
		for _, d := range found {
			all = append(all, deliveryView(ref.ID, d, state))
		}
	}
	number := func(d *executorv1.WebhookDelivery) uint64 {
		no, _ := webhook.DeliveryNumber(ref.ID, d.GetId())
		return no
	}
	slices.SortFunc(all, func(a, b *executorv1.WebhookDelivery) int { return cmp.Compare(number(a), number(b)) })
	out := &executorv1.ListWebhookDeliveriesResponse{Deliveries: all}
	if len(all) > n {
		out.Deliveries = all[:n]
		out.NextPageToken = page.Encode(scope, strconv.AppendUint(nil, number(all[n-1]), 10))
	}
	return out, nil
}

// RedeliverWebhookDelivery implements WebhookService.
func (s *Webhooks) RedeliverWebhookDelivery(ctx context.Context, req *executorv1.RedeliverWebhookDeliveryRequest) (*executorv1.WebhookDelivery, error) {
	ref, _, err := s.load(ctx, req.GetWebhookId())
	if err != nil {
		return nil, err
	}
	notFound := errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_WEBHOOK_DELIVERY_NOT_FOUND,
		"the webhook has no pending or failed delivery %s; list them with `pawl webhooks deliveries` or GET /v1/webhooks/{id}/deliveries", req.GetId())
	no, ok := webhook.DeliveryNumber(ref.ID, req.GetId())
	if !ok {
		return nil, notFound
	}
	d, err := s.Sender.Redeliver(ctx, ref, no)
	if err != nil {
		return nil, apiError(err, notFound)
	}
	return deliveryView(ref.ID, d, executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_PENDING), nil
}

func webhookView(id string, w *storagev1.Webhook) *executorv1.Webhook {
	return &executorv1.Webhook{
		Id: id, DisplayName: w.GetDisplayName(), Url: w.GetUrl(), TopicId: w.GetTopicId(), AgentId: w.GetAgentId(), EventTypes: w.GetEventTypes(),
		Disabled: w.GetDisabled(), DisabledReason: w.GetDisabledReason(), CreateTime: nanoTime(w.GetCreateTime()), UpdateTime: nanoTime(w.GetUpdateTime()),
		Etag: strconv.FormatUint(w.GetRev(), 10),
	}
}

func deliveryView(webhookID string, d journal.Delivery, state executorv1.WebhookDeliveryState) *executorv1.WebhookDelivery {
	out := &executorv1.WebhookDelivery{
		Id: webhook.DeliveryID(webhookID, d.No), WebhookId: webhookID, State: state, EventType: d.GetEventType(), TaskId: d.GetTaskId(), TopicId: d.GetTopicId(),
		Seq: d.GetSeq(), CreateTime: nanoTime(d.GetCreateTime()), Attempts: d.GetAttempts(), AttemptTime: nanoTime(d.GetAttemptTime()),
		HttpStatus: d.GetHttpStatus(), Error: d.GetError(),
	}
	if state == executorv1.WebhookDeliveryState_WEBHOOK_DELIVERY_STATE_PENDING {
		out.NextAttemptTime = nanoTime(max(d.GetNextTime(), d.GetStartTime()))
	}
	return out
}

// nanoTime returns a time in nanoseconds since 1970; nil for 0.
func nanoTime(nanos int64) *timestamppb.Timestamp {
	if nanos == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(0, nanos))
}
