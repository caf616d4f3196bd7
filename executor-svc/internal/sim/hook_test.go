package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pawl.dev/services/seal"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
	"pawl.dev/executor-svc/internal/webhook"
)

// hookEvery is how many seeds there are for one with topics and webhooks, and for one with webhooks alone.
const hookEvery = 8

// hooking gives the world webhooks.
func hooking(c *config) { c.hooks = true }

// hookBook is what the receiver of a webhook got.
type hookBook struct {
	ref  journal.WebhookRef
	hook *storagev1.Webhook
	// arrived holds the events in the order in which they came, also those that came again.
	arrived []arrival
	// tried holds the deliveries that came, or may have come, and were not accepted: later events may overtake them.
	tried map[string]bool
	// removed holds the numbers of deliveries whose removal is durable.
	removed map[string]bool
}

// arrival is an event that a receiver got.
type arrival struct {
	id, eventType string
	// source is the id of a task or topic.
	source string
	seq    uint64
}

// secrets encrypts the secrets of webhooks.
func secrets(t testing.TB) webhook.Secrets {
	box, err := seal.NewBox(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	return webhook.Secrets{Box: box}
}

// openHooks makes the webhooks: one of each user's tasks, and one of each topic for bob, who takes part in all of them to the end.
func (w *world) openHooks(t testing.TB, store *bolt.Store) {
	if !w.cfg.hooks {
		return
	}
	add := func(user, topicID string, types ...string) {
		n := len(w.book.hooks) + 1
		h := &hookBook{
			ref:   journal.WebhookRef{User: user, ID: fmt.Sprintf("00000000-0000-7000-9000-%012d", n)},
			hook:  &storagev1.Webhook{Url: fmt.Sprintf("https://receiver.example/%d", n), Rev: 1, TopicId: topicID, EventTypes: types},
			tried: map[string]bool{}, removed: map[string]bool{},
		}
		secrets(t).Add(h.ref, h.hook, w.s.began)
		if err := store.PutWebhook(context.Background(), h.ref, h.hook, 0, n); err != nil {
			t.Fatal(err)
		}
		w.book.hooks = append(w.book.hooks, h)
	}
	for _, user := range users {
		add(user, "")
	}
	for _, k := range w.book.talks {
		add("bob", k.id, "topic.new_message", "topic.agent_received", "topic.agent_silent", "topic.agent_stream_chunk", "topic.messages_rolled_back")
	}
}

// undelivered reports whether an event waits to be delivered.
func (w *world) undelivered() bool {
	if !w.cfg.hooks {
		return false
	}
	pending, err := w.proc.store.PendingWebhooks(context.Background())
	return err == nil && len(pending) > 0
}

// receivers is the network between a process and the receivers of webhooks.
type receivers struct {
	w *world
	p *proc
}

// RoundTrip implements http.RoundTripper.
func (r receivers) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	id := req.Header.Get("webhook-id")
	h := r.w.book.hooks[slices.IndexFunc(r.w.book.hooks, func(h *hookBook) bool { return h.hook.GetUrl() == req.URL.String() })]
	fails := 2 * r.w.cfg.netFails
	label := r.p.name + " posts " + strings.TrimLeft(strings.TrimPrefix(id, "msg_"), "0")
	roll, err := r.w.s.pass(req.Context(), r.p.dead, label)
	answer := func(status int) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}, nil
	}
	switch {
	case err != nil:
		r.w.book.tries(h, id)
		return nil, err
	case roll.oneIn(fails, 61):
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	case roll.oneIn(fails, 62):
		return answer(http.StatusServiceUnavailable)
	case roll.oneIn(fails, 63):
		r.w.book.tries(h, id)
		return answer(http.StatusInternalServerError)
	}
	r.w.book.arrives(h, id, body)
	if _, err := r.w.s.pass(req.Context(), r.p.dead, label+" is accepted"); err != nil {
		return nil, err
	}
	if roll.oneIn(fails, 64) {
		return nil, errors.New("connection reset by peer")
	}
	return answer(http.StatusNoContent)
}

func (b *book) tries(h *hookBook, id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h.tried[id] = true
}

// arrives writes down an event: it must not come again once its delivery was removed.
func (b *book) arrives(h *hookBook, id string, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var got struct {
		Type string
		Data struct {
			TaskID, TopicID string
			Seq             uint64 `json:",string"`
		}
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&got); err != nil {
		b.wrong("%s is posted as %q: %v", id, body, err)
	}
	if h.removed[id] {
		b.wrong("%s of %s is posted again, although it was delivered", got.Type, id)
	}
	h.arrived = append(h.arrived, arrival{id, got.Type, cmp.Or(got.Data.TopicID, got.Data.TaskID), got.Data.Seq})
}

// delivered writes down that the removal of a delivery is durable.
func (b *book) delivered(webhookID string, no uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.hooks {
		if h.ref.ID == webhookID {
			h.removed[webhook.DeliveryID(webhookID, no)] = true
		}
	}
}

// auditHook checks that each event that a webhook wants came, and no other one; and that the events of a task or topic came in their order, except those that
// were tried in vain.
func (w *world) auditHook(j journal.Journal, h *hookBook) {
	wrong := func(format string, args ...any) {
		w.book.fault("the webhook %s of %s: %s", h.hook.GetUrl(), h.ref.User, fmt.Sprintf(format, args...))
	}
	came, newest := map[string]bool{}, map[string]uint64{}
	event := func(source string, seq uint64, eventType string) string {
		return fmt.Sprintf("%s %d of %s", eventType, seq, w.book.name(source))
	}
	for _, a := range h.arrived {
		if e := event(a.source, a.seq, a.eventType); !came[e] {
			if came[e] = true; a.seq < newest[a.source] && !h.tried[a.id] {
				wrong("%s came after event %d", e, newest[a.source])
			}
			newest[a.source] = max(newest[a.source], a.seq)
		}
	}
	wants := func(source string, seq uint64, eventType string) {
		if e := event(source, seq, eventType); !came[e] {
			wrong("%s was not delivered", e)
		} else {
			delete(came, e)
		}
	}
	if h.hook.GetTopicId() == "" {
		for _, k := range w.book.all() {
			old := uint64(0)
			for _, f := range k.head.GetForks() {
				old = f.GetSeq()
			}
			for i, f := range k.facts {
				if eventType, is := journal.WantsTaskEvent(h.hook, f); is && uint64(i+1) > old && k.head.GetUserSub() == h.ref.User {
					wants(k.id, uint64(i+1), eventType)
				}
			}
		}
	} else {
		rs, err := j.TopicRecords(context.Background(), h.hook.GetTopicId(), 0, 1<<30)
		if err != nil {
			wrong("its topic cannot be read: %v", err)
		}
		for _, r := range rs {
			for i, f := range r.GetFacts() {
				if eventType, is := journal.WantsTopicEvent(h.hook, f); is {
					wants(h.hook.GetTopicId(), r.FirstSeq+uint64(i), eventType)
				}
			}
		}
	}
	for e := range came {
		wrong("%s was delivered, and it is no event of the webhook", e)
	}
	if failed, err := j.Deliveries(context.Background(), journal.DeliveryQuery{WebhookID: h.ref.ID, Failed: true, Limit: 1}); err != nil || len(failed) > 0 {
		wrong("dead letters: %v, %v", failed, err)
	}
}

func (g *gated) Webhook(ctx context.Context, ref journal.WebhookRef) (w *storagev1.Webhook, err error) {
	err = g.read(ctx, "webhook "+ref.ID, "", func() (err error) { w, err = g.Journal.Webhook(ctx, ref); return err })
	return w, err
}

func (g *gated) PendingWebhooks(ctx context.Context) (all []journal.WebhookRef, err error) {
	err = g.read(ctx, "pending webhooks", "", func() (err error) { all, err = g.Journal.PendingWebhooks(ctx); return err })
	return all, err
}

func (g *gated) Deliveries(ctx context.Context, q journal.DeliveryQuery) (all []journal.Delivery, err error) {
	err = g.read(ctx, "deliveries of "+q.WebhookID, "", func() (err error) { all, err = g.Journal.Deliveries(ctx, q); return err })
	return all, err
}

func (g *gated) PutDelivery(ctx context.Context, id string, d journal.Delivery, failed bool) error {
	return g.change(ctx, fmt.Sprint("put delivery ", d.No), "", g.w.cfg.writeFails, func() error { return g.Journal.PutDelivery(ctx, id, d, failed) })
}

func (g *gated) Delivered(ctx context.Context, id string, no uint64) error {
	return g.change(ctx, fmt.Sprint("delivered ", no), "", g.w.cfg.writeFails, func() error {
		err := g.Journal.Delivered(ctx, id, no)
		if err == nil {
			g.w.book.delivered(id, no)
		}
		return err
	})
}
