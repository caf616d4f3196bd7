package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"pawl.dev/services/outbound"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

const (
	// timeout bounds one attempt.
	timeout = 15 * time.Second
	// giveUpAfter is how long a delivery is attempted.
	giveUpAfter = 24 * time.Hour
	// firstDelay and lastDelay bound the backoff of a delivery; each delay is delayFactor times the one before.
	firstDelay  = 5 * time.Second
	lastDelay   = time.Hour
	delayFactor = 3
	// firstPause and lastPause bound the backoff of a receiver whose attempts fail one after the other.
	firstPause = time.Second
	lastPause  = time.Minute
	// maxAnswer is how much of an answer is read, so that the connection can be used again.
	maxAnswer = 4 << 10
)

// PingType is the type of the event that a test posts.
const PingType = "webhook.ping"

// Result is the result of an attempt.
type Result struct {
	// Status is the HTTP status; 0 if there was no answer.
	Status int
	// Problem says why the event was not delivered; empty if it was.
	Problem string
	// Down is true if the reason is the receiver, whatever the event: there was no connection, or it asked for time. RetryAfter is how much it asked for.
	Down       bool
	RetryAfter time.Duration
	Took       time.Duration
}

// DeliveryID returns the id of a delivery, the webhook-id of all its attempts.
func DeliveryID(webhookID string, no uint64) string {
	return "msg_" + strings.ReplaceAll(webhookID, "-", "") + "_" + strconv.FormatUint(no, 10)
}

// DeliveryNumber returns the number in the id of a delivery of this webhook.
func DeliveryNumber(webhookID, id string) (uint64, bool) {
	text, ok := strings.CutPrefix(id, DeliveryID(webhookID, 0)[:len("msg_")+33])
	no, err := strconv.ParseUint(text, 10, 64)
	return no, ok && err == nil && DeliveryID(webhookID, no) == id
}

// Ping posts a test event.
func (s *Sender) Ping(ctx context.Context, ref journal.WebhookRef, w *storagev1.Webhook) (Result, error) {
	body, err := envelope(PingType, time.Now(), nil)
	if err != nil {
		return Result{}, err
	}
	held, err := s.posting.Acquire(ctx, ref.User, maxData)
	if err != nil {
		return Result{}, err
	}
	defer held.Release()
	r := s.post(ctx, ref, w, "msg_"+strings.ReplaceAll(uuid.NewString(), "-", ""), body)
	return r, ctx.Err()
}

// post makes one attempt.
func (s *Sender) post(ctx context.Context, ref journal.WebhookRef, w *storagev1.Webhook, id string, body []byte) (r Result) {
	begin := time.Now()
	defer func() { r.Took = time.Since(begin) }()
	signature, err := s.Secrets.sign(ref, w, id, begin, body)
	if err != nil {
		return Result{Problem: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.GetUrl(), bytes.NewReader(body))
	if err != nil {
		return Result{Problem: "its URL cannot be used"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Pawl-Webhooks")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(begin.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	resp, err := s.Receivers.do(req)
	if err != nil {
		dialling, ok := errors.AsType[*net.OpError](err)
		return Result{Problem: describe(err), Down: ok && dialling.Op == "dial"}
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
	_ = resp.Body.Close()
	r.Status = resp.StatusCode
	switch {
	case r.Status >= 300 && r.Status < 400:
		r.Problem = fmt.Sprintf("the receiver redirects (HTTP %d), and redirects are not followed; change the webhook's URL", r.Status)
	case r.Status < 200 || r.Status >= 300:
		r.Problem = fmt.Sprintf("the receiver answered HTTP %d", r.Status)
	}
	if r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable {
		r.Down, r.RetryAfter = true, min(outbound.RetryAfter(resp.Header.Get("Retry-After"), time.Now()), lastDelay)
	}
	return r
}

// attempt attempts a delivery and stores the result, which it returns. An error says that the journal cannot be used.
func (s *Sender) attempt(ctx context.Context, ref journal.WebhookRef, w *storagev1.Webhook, d journal.Delivery) (r Result, err error) {
	held, err := s.posting.Acquire(ctx, ref.User, maxData)
	if err != nil {
		return r, err
	}
	defer held.Release()
	body, err := s.body(ctx, ref, d.Delivery)
	switch {
	case errors.Is(err, errLeft):
		d.Error = err.Error()
		return r, s.fail(ctx, ref, d) // the receiver is not the reason
	case err != nil:
		return r, err
	}
	r = s.post(ctx, ref, w, DeliveryID(ref.ID, d.No), body)
	if ctx.Err() != nil && r.Problem != "" {
		return r, ctx.Err() // the executor stops; the attempt does not count
	}
	s.measure(ctx, r)
	if r.Problem == "" {
		return r, s.Journal.Delivered(ctx, ref.ID, d.No)
	}
	now := time.Now()
	d.Attempts++
	if !r.Down {
		d.Refusals++
	}
	d.AttemptTime, d.HttpStatus, d.Error = now.UnixNano(), uint32(r.Status), r.Problem
	d.NextTime = now.Add(max(backoff(d.GetAttempts(), firstDelay, delayFactor, lastDelay), r.RetryAfter)).UnixNano()
	s.Log.Warn("an event could not be delivered to a webhook", "user", ref.User, "webhook", ref.ID, "delivery", DeliveryID(ref.ID, d.No), "type", d.GetEventType(),
		"attempt", d.GetAttempts(), "status", r.Status, "error", r.Problem)
	if r.Status == http.StatusGone {
		if err := s.disable(ctx, ref); err != nil {
			return r, err
		}
	}
	if d.GetNextTime() > d.GetStartTime()+int64(giveUpAfter) {
		return r, s.fail(ctx, ref, d)
	}
	return r, s.put(ctx, ref, d, false)
}

// Redeliver makes a delivery pending and due, as if its event were new, and returns it.
func (s *Sender) Redeliver(ctx context.Context, ref journal.WebhookRef, no uint64) (journal.Delivery, error) {
	d, err := s.Journal.Redeliver(ctx, ref.ID, no, time.Now().UnixNano())
	if err == nil {
		s.Wake(ref)
	}
	return d, err
}

// put stores the outcome of an attempt, unless the delivery was redelivered during the attempt.
func (s *Sender) put(ctx context.Context, ref journal.WebhookRef, d journal.Delivery, failed bool) error {
	err := s.Journal.PutDelivery(ctx, ref.ID, d, failed)
	if errors.Is(err, journal.ErrStale) {
		return nil
	}
	return ignoreDeleted(err)
}

// fail makes a delivery a dead letter.
func (s *Sender) fail(ctx context.Context, ref journal.WebhookRef, d journal.Delivery) error {
	d.NextTime = 0
	s.Log.Error("an event is not delivered to a webhook; `pawl webhooks redeliver` tries again", "user", ref.User, "webhook", ref.ID,
		"delivery", DeliveryID(ref.ID, d.No), "type", d.GetEventType(), "attempts", d.GetAttempts(), "error", d.GetError())
	s.metrics.dead.Add(ctx, 1)
	return s.put(ctx, ref, d, true)
}

// failOldest makes the oldest deliveries of a webhook dead letters if too many are pending.
func (s *Sender) failOldest(ctx context.Context, ref journal.WebhookRef) error {
	n, err := s.Journal.FailOldest(ctx, ref.ID, s.maxPending, fmt.Sprintf("%d newer events were pending", s.maxPending))
	if n > 0 {
		s.metrics.dead.Add(ctx, int64(n))
		s.Log.Error("the oldest events of a webhook are not delivered, because too many are pending; look at its receiver, and `pawl webhooks redeliver` tries again",
			"user", ref.User, "webhook", ref.ID, "events", n, "pending", s.maxPending)
	}
	return err
}

// disable disables a webhook whose receiver answered 410.
func (s *Sender) disable(ctx context.Context, ref journal.WebhookRef) error {
	for {
		w, err := s.Journal.Webhook(ctx, ref)
		if err != nil || w.GetDisabled() {
			return ignoreDeleted(err)
		}
		rev := w.GetRev()
		w.Disabled, w.DisabledReason, w.Rev, w.UpdateTime = true, "the receiver answered HTTP 410 (Gone)", rev+1, time.Now().UnixNano()
		if err = s.Journal.PutWebhook(ctx, ref, w, rev, 0); !errors.Is(err, journal.ErrStale) {
			if err == nil {
				s.Audited(ctx, "disabled: "+w.GetDisabledReason(), ref, w)
			}
			return ignoreDeleted(err)
		}
	}
}

// Audited logs and records a change of a webhook. The path of its URL may be secret.
func (s *Sender) Audited(ctx context.Context, change string, ref journal.WebhookRef, w *storagev1.Webhook) {
	host := ""
	if u, err := url.Parse(w.GetUrl()); err == nil {
		host = u.Host
	}
	attrs := []slog.Attr{
		slog.String("user", ref.User), slog.String("webhook", ref.ID), slog.String("change", change), slog.String("host", host), slog.Bool("disabled", w.GetDisabled()),
	}
	s.Log.LogAttrs(ctx, slog.LevelInfo, "a webhook was changed", attrs...)
	s.Audit.Record(ctx, "webhook_change", attrs...)
}

// ignoreDeleted returns nil for a webhook that was deleted meanwhile.
func ignoreDeleted(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return nil
	}
	return err
}

// backoff returns the delay after the nth failure in a row, with a jitter of a fifth.
func backoff(n uint32, first time.Duration, factor int, last time.Duration) time.Duration {
	d := first
	for ; n > 1 && d < last; n-- {
		d *= time.Duration(factor)
	}
	d = min(d, last)
	return d - d/5 + rand.N(2*d/5) //nolint:gosec // it only spreads attempts
}

// metrics measure attempts, and count dead letters.
type metrics struct {
	duration metric.Float64Histogram
	dead     metric.Int64Counter
}

func newMetrics(m metric.Meter, log *slog.Logger) metrics {
	h, err := m.Float64Histogram("pawl.executor.webhook.duration", metric.WithUnit("s"), metric.WithDescription("How long attempts to deliver an event took, by their outcome."))
	dead, deadErr := m.Int64Counter("pawl.executor.webhook.dead_letters", metric.WithDescription("Events that are no longer attempted."))
	if err := errors.Join(err, deadErr); err != nil {
		log.Error("attempts to deliver events are not measured", "error", err)
	}
	return metrics{h, dead}
}

func (s *Sender) measure(ctx context.Context, r Result) {
	outcome := "delivered"
	if r.Problem != "" {
		outcome = "failed"
	}
	s.metrics.duration.Record(ctx, r.Took.Seconds(), metric.WithAttributes(attribute.String("pawl.outcome", outcome), attribute.Int("http.response.status_code", r.Status)))
}
