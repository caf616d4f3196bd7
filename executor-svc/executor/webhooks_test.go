package executor_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"

	"pawl.dev/executor-svc/internal/fake"
)

// posted is a request that a receiver got.
type posted struct {
	http.Header
	body []byte
	path string
}

func (p *posted) id() string { return p.Get("webhook-id") }

// content returns the type and the data of the event.
func (p *posted) content(t *testing.T) (eventType string, data []byte) {
	t.Helper()
	var c struct {
		Type      string
		Timestamp time.Time
		Data      json.RawMessage
	}
	if err := json.Unmarshal(p.body, &c); err != nil || c.Timestamp.IsZero() {
		t.Fatalf("%s: %v", p.body, err)
	}
	return c.Type, c.Data
}

// signed reports whether one of the signatures is by the secret.
func (p *posted) signed(secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", p.id(), p.Get("webhook-timestamp"), p.body)
	return err == nil && slices.Contains(strings.Fields(p.Get("webhook-signature")), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// receiver is a server that gets events.
type receiver struct {
	*httptest.Server
	t   *testing.T
	got chan *posted
}

// newReceiver starts a receiver. answer, if not nil, answers a request; otherwise it is accepted.
func newReceiver(t *testing.T, answer func(w http.ResponseWriter, p *posted)) *receiver {
	r := &receiver{t: t, got: make(chan *posted, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		p := &posted{req.Header, body, req.URL.Path}
		if answer != nil {
			answer(w, p)
		}
		r.got <- p
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) next() *posted {
	r.t.Helper()
	select {
	case p := <-r.got:
		return p
	case <-time.After(20 * time.Second):
		r.t.Fatal("nothing was delivered")
		return nil
	}
}

// allowLoopback restarts the rig so that webhooks may lead to loopback.
func (r *rig) allowLoopback() *rig {
	r.stop()
	r.cfg.AllowWebhookAddresses = []string{"127.0.0.0/8"}
	r.start()
	return r
}

func (r *rig) webhooks() executorv1.WebhookServiceClient {
	return executorv1.NewWebhookServiceClient(r.dial(""))
}

func hook(t *testing.T, c executorv1.WebhookServiceClient, w *executorv1.Webhook) *executorv1.Webhook {
	t.Helper()
	created, err := c.CreateWebhook(t.Context(), &executorv1.CreateWebhookRequest{Webhook: w})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// A task's question and its end are posted, in their order and signed, with the events of the API.
func TestWebhookOfATask(t *testing.T) {
	r := newRig(t, fake.Script("write")).allowLoopback()
	web := newReceiver(t, nil)
	w := hook(t, r.webhooks(), &executorv1.Webhook{Url: web.URL + "/in"})
	id := r.create(auto("go")).GetId()
	asked := web.next()
	stop := r.until(id, flowStop)
	if _, err := r.approve(id, stop.GetFlowStop().GetWaitIds()[0], ""); err != nil {
		t.Fatal(err)
	}
	ended := web.next()
	for i, want := range []struct {
		*posted
		eventType string
		kind      executorv1.EventType
	}{
		{asked, "task.step_waiting_for_start", executorv1.EventType_EVENT_TYPE_STEP_WAITING_FOR_START}, {ended, "task.flow_success", flowSuccess},
	} {
		eventType, data := want.content(t)
		got := &executorv1.ExecutorEvent{}
		if err := protojson.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		if e := r.until(id, want.kind); eventType != want.eventType || !proto.Equal(e, got) {
			t.Errorf("%d: %s %v, want %v", i, eventType, got, e)
		}
		if !want.signed(w.GetSecret()) || want.signed("whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))) || want.path != "/in" {
			t.Errorf("%d: %v", i, want.Header)
		}
	}
	if asked.id() == ended.id() || !strings.HasPrefix(w.GetSecret(), "whsec_") {
		t.Errorf("ids %s, %s", asked.id(), ended.id())
	}
}

// An event that was committed before the executor stopped is delivered after its restart, always with the same id; a delivery whose acceptance was not stored
// is repeated.
func TestWebhookAfterRestarts(t *testing.T) {
	r := newRig(t, fake.Script()).allowLoopback()
	status := http.StatusInternalServerError
	web := newReceiver(t, func(w http.ResponseWriter, _ *posted) { w.WriteHeader(status) })
	hooks := r.webhooks()
	w := hook(t, hooks, &executorv1.Webhook{Url: web.URL})
	id := r.create(auto("go")).GetId()
	first := web.next()
	r.until(id, flowSuccess)
	r.stop()
	status = http.StatusOK
	r.start()
	if _, err := r.webhooks().RedeliverWebhookDelivery(t.Context(), &executorv1.RedeliverWebhookDeliveryRequest{WebhookId: w.GetId(), Id: first.id()}); err != nil && errs.From(err).Code != codes.NotFound {
		t.Fatal(err) // else it is delivered already
	}
	if again := web.next(); again.id() != first.id() || string(again.body) != string(first.body) {
		t.Errorf("delivered %s %s, then %s %s", first.id(), first.body, again.id(), again.body)
	}
	wantNoDeliveries(t, r.webhooks(), w.GetId())
}

func deliveries(t *testing.T, c executorv1.WebhookServiceClient, id string) []*executorv1.WebhookDelivery {
	t.Helper()
	list, err := c.ListWebhookDeliveries(t.Context(), &executorv1.ListWebhookDeliveriesRequest{WebhookId: id})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetDeliveries()
}

// wantNoDeliveries waits until no delivery is pending or failed.
func wantNoDeliveries(t *testing.T, c executorv1.WebhookServiceClient, id string) {
	t.Helper()
	for begin := time.Now(); len(deliveries(t, c, id)) > 0; {
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("deliveries %v", deliveries(t, c, id))
		}
		<-time.After(time.Millisecond)
	}
}

// A user's webhooks do not exist for others, and a topic's webhook gets events only while its owner participates.
func TestWebhookRights(t *testing.T) {
	r := newRig(t, fake.Script()).allowLoopback()
	user := users(t, r)
	ann, bob := user("ann"), user("bob")
	web := newReceiver(t, nil)
	topic := ann.topic(&conversationv1.Participant{Who: &conversationv1.Participant_UserSub{UserSub: "bob"}, Role: conversationv1.Role_ROLE_READER})
	both := hook(t, bob.hooks, &executorv1.Webhook{Url: web.URL + "/bob", TopicId: topic.GetId()})
	if _, err := user("eve").hooks.CreateWebhook(t.Context(), &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{Url: web.URL, TopicId: topic.GetId()}}); errs.From(err).Reason != commonv1.ErrorReason_ERROR_REASON_TOPIC_NOT_FOUND {
		t.Errorf("a webhook of another's topic: %v", err)
	}
	if _, err := ann.hooks.GetWebhook(t.Context(), &executorv1.GetWebhookRequest{Id: both.GetId()}); errs.From(err).Reason != commonv1.ErrorReason_ERROR_REASON_WEBHOOK_NOT_FOUND {
		t.Errorf("another's webhook: %v", err)
	}
	ann.post(topic.GetId(), &conversationv1.Message{Id: "1", Text: "hello"})
	if eventType, data := web.next().content(t); eventType != "topic.new_message" || !strings.Contains(string(data), `"hello"`) {
		t.Errorf("%s %s", eventType, data)
	}
	if _, err := ann.RemoveParticipant(t.Context(), &conversationv1.RemoveParticipantRequest{TopicId: topic.GetId(), Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	mine := hook(t, ann.hooks, &executorv1.Webhook{Url: web.URL + "/ann", TopicId: topic.GetId(), EventTypes: []string{"topic.topic_updated", "topic.new_message"}})
	ann.post(topic.GetId(), &conversationv1.Message{Id: "2", Text: "without bob"})
	if p := web.next(); p.path != "/ann" || !p.signed(mine.GetSecret()) {
		t.Errorf("delivered to %s", p.path)
	}
	wantNoDeliveries(t, ann.hooks, mine.GetId())
	wantNoDeliveries(t, bob.hooks, both.GetId())
	if len(web.got) > 0 {
		t.Errorf("also delivered: %s", (<-web.got).body)
	}
}

// Webhooks are created, changed and deleted as other resources are; their secrets are shown once.
func TestWebhookResource(t *testing.T) {
	r := newRig(t, fake.Script()).allowLoopback()
	c, ctx := r.webhooks(), t.Context()
	req := &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{Url: "https://hooks.example.com/x", DisplayName: "x"}, RequestId: "once"}
	w, err := c.CreateWebhook(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.CreateWebhook(ctx, req); err != nil || !proto.Equal(w, again) {
		t.Errorf("repeated: %v, %v", again, err)
	}
	req.Webhook.DisplayName = "y"
	if _, err := c.CreateWebhook(ctx, req); errs.From(err).Reason != commonv1.ErrorReason_ERROR_REASON_REQUEST_ID_REUSED {
		t.Errorf("request_id reused: %v", err)
	}
	got, err := c.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: w.GetId()})
	if err != nil || got.GetSecret() != "" || got.GetDisplayName() != "x" || got.GetCreateTime() == nil {
		t.Errorf("%v, %v", got, err)
	}
	changed, err := c.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: w.GetId(), EventTypes: []string{"task.flow_failed"}, Etag: got.GetEtag()}})
	if err != nil || len(changed.GetEventTypes()) != 1 || changed.GetDisplayName() != "x" || changed.GetEtag() == got.GetEtag() {
		t.Errorf("%v, %v", changed, err)
	}
	if _, err := c.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: w.GetId(), Etag: got.GetEtag(), DisplayName: "z"}}); errs.From(err).Code != codes.Aborted {
		t.Errorf("a lost update: %v", err)
	}
	if _, err := c.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: w.GetId()}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"topic_id"}}}); errs.From(err).Code != codes.InvalidArgument {
		t.Errorf("another source: %v", err)
	}
	for _, bad := range []*executorv1.Webhook{
		{}, {Url: "ftp://example.com"}, {Url: "https:///x"}, {Url: "https://u:p@example.com"}, {Url: "http://93.184.216.34/"}, {Url: "https://10.1.2.3/"}, {Url: "https://[::1]/"},
		{Url: "https://example.com", EventTypes: []string{"task.nothing"}}, {Url: "https://example.com", EventTypes: []string{"topic.new_message"}},
		{Url: "https://example.com", EventTypes: []string{"task.event_type_unspecified"}}, {Url: "https://example.com", EventTypes: []string{"task.unspecified"}},
	} {
		if _, err := c.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{Webhook: bad}); errs.From(err).Code != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	rotated, err := c.RotateWebhookSecret(ctx, &executorv1.RotateWebhookSecretRequest{Id: w.GetId()})
	if err != nil || rotated.GetSecret() == w.GetSecret() || rotated.GetSecret() == "" {
		t.Errorf("%v, %v", rotated, err)
	}
	for range 19 {
		hook(t, c, &executorv1.Webhook{Url: "https://example.com"})
	}
	if _, err := c.CreateWebhook(ctx, &executorv1.CreateWebhookRequest{Webhook: &executorv1.Webhook{Url: "https://example.com"}}); errs.From(err).Reason != commonv1.ErrorReason_ERROR_REASON_LIMIT_REACHED {
		t.Errorf("too many: %v", err)
	}
	seen := 0
	for token := ""; ; {
		list, err := c.ListWebhooks(ctx, &executorv1.ListWebhooksRequest{PageSize: 7, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		seen += len(list.GetWebhooks())
		if token = list.GetNextPageToken(); token == "" {
			break
		}
	}
	if seen != 20 {
		t.Errorf("%d webhooks are listed", seen)
	}
	if _, err := c.DeleteWebhook(ctx, &executorv1.DeleteWebhookRequest{Id: w.GetId()}); err != nil {
		t.Error(err)
	}
	if _, err := c.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: w.GetId()}); errs.From(err).Code != codes.NotFound {
		t.Errorf("deleted: %v", err)
	}
}

// Each change of a webhook that succeeds has an audit record, without the path of the URL and the secret.
func TestChangesOfWebhooksAreAudited(t *testing.T) {
	r := newRig(t, fake.Script())
	r.cfg.Audit = filepath.Join(t.TempDir(), "audit.jsonl")
	ann, ctx := users(t, r)("ann"), t.Context()
	w := hook(t, ann.hooks, &executorv1.Webhook{Url: "https://hooks.example.com/sesame"})
	one := &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: w.GetId(), Disabled: true}}
	stale := &executorv1.UpdateWebhookRequest{Webhook: &executorv1.Webhook{Id: w.GetId(), Etag: "0", DisplayName: "x"}}
	_, update := ann.hooks.UpdateWebhook(ctx, one)
	_, lost := ann.hooks.UpdateWebhook(ctx, stale)
	_, rotate := ann.hooks.RotateWebhookSecret(ctx, &executorv1.RotateWebhookSecretRequest{Id: w.GetId()})
	_, get := ann.hooks.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: w.GetId()})
	_, del := ann.hooks.DeleteWebhook(ctx, &executorv1.DeleteWebhookRequest{Id: w.GetId()})
	if err := errors.Join(update, rotate, get, del); err != nil || lost == nil {
		t.Fatal(err, lost)
	}
	raw, err := os.ReadFile(r.cfg.Audit)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var rec struct {
			Msg, User, Webhook, Change, Host string
			Disabled                         bool
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil || rec.Msg != "webhook_change" || rec.User != "ann" || rec.Webhook != w.GetId() || rec.Host != "hooks.example.com" {
			t.Errorf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprint(rec.Change, " ", rec.Disabled))
	}
	if want := []string{"created false", "updated true", "secret_rotated true", "deleted true"}; !slices.Equal(got, want) {
		t.Errorf("records: %q, want %q", got, want)
	}
	if strings.Contains(string(raw), "sesame") || strings.Contains(string(raw), "whsec_") {
		t.Errorf("secrets are in %s", raw)
	}
}

// Both secrets sign after a rotation. A redirect is not followed, and 410 disables the webhook until its owner enables it.
func TestWebhookAnswers(t *testing.T) {
	r := newRig(t, fake.Script())
	r.cfg.Audit = filepath.Join(t.TempDir(), "audit.jsonl")
	r.allowLoopback()
	inside := newReceiver(t, nil)
	answer := func(w http.ResponseWriter, p *posted) {
		switch p.path {
		case "/redirect":
			w.Header().Set("Location", inside.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		}
	}
	web := newReceiver(t, answer)
	c, ctx := r.webhooks(), t.Context()
	w := hook(t, c, &executorv1.Webhook{Url: web.URL})
	rotated, err := c.RotateWebhookSecret(ctx, &executorv1.RotateWebhookSecretRequest{Id: w.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if ping, err := c.TestWebhook(ctx, &executorv1.TestWebhookRequest{Id: w.GetId()}); err != nil || !ping.GetDelivered() || ping.GetHttpStatus() != 200 {
		t.Errorf("%v, %v", ping, err)
	}
	if p := web.next(); !p.signed(w.GetSecret()) || !p.signed(rotated.GetSecret()) || !strings.Contains(string(p.body), `"type":"webhook.ping"`) {
		t.Errorf("%v %s", p.Header, p.body)
	}
	redirects := hook(t, c, &executorv1.Webhook{Url: web.URL + "/redirect"})
	if ping, err := c.TestWebhook(ctx, &executorv1.TestWebhookRequest{Id: redirects.GetId()}); err != nil || ping.GetDelivered() || ping.GetHttpStatus() != 307 || !strings.Contains(ping.GetError(), "redirects") {
		t.Errorf("%v, %v", ping, err)
	}
	if len(inside.got) > 0 {
		t.Error("the redirect was followed")
	}
	if _, err := c.DeleteWebhook(ctx, &executorv1.DeleteWebhookRequest{Id: redirects.GetId()}); err != nil {
		t.Error(err)
	}
	web.next()
	gone := hook(t, c, &executorv1.Webhook{Url: web.URL + "/gone"})
	r.run(auto("go"))
	for range 2 {
		web.next()
	}
	wantNoDeliveries(t, c, w.GetId())
	for begin := time.Now(); ; <-time.After(time.Millisecond) {
		if gone, err = c.GetWebhook(ctx, &executorv1.GetWebhookRequest{Id: gone.GetId()}); err != nil || time.Since(begin) > 20*time.Second {
			t.Fatal(gone, err)
		}
		if gone.GetDisabled() {
			break
		}
	}
	if raw, err := os.ReadFile(r.cfg.Audit); err != nil || !strings.Contains(string(raw), `"change":"disabled: the receiver answered HTTP 410 (Gone)"`) {
		t.Errorf("the audit file has %s, %v", raw, err)
	}
	r.run(auto("go on"))
	web.next()
	if left := deliveries(t, c, gone.GetId()); !strings.Contains(gone.GetDisabledReason(), "410") || len(left) != 1 || left[0].GetHttpStatus() != 410 {
		t.Errorf("%v: %v", gone, left)
	}
	enabled := &executorv1.Webhook{Id: gone.GetId(), Url: web.URL + "/back"}
	if _, err := c.UpdateWebhook(ctx, &executorv1.UpdateWebhookRequest{Webhook: enabled, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"url", "disabled"}}}); err != nil {
		t.Fatal(err)
	}
	if p := web.next(); p.path != "/back" {
		t.Errorf("delivered to %s", p.path)
	}
}

// A receiver that hangs delays no other webhook of the user, and no step.
func TestWebhookThatHangs(t *testing.T) {
	r := newRig(t, fake.Script()).allowLoopback()
	release := make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *posted) { <-release })
	defer close(release)
	fast := newReceiver(t, nil)
	hook(t, r.webhooks(), &executorv1.Webhook{Url: slow.URL})
	hook(t, r.webhooks(), &executorv1.Webhook{Url: fast.URL, EventTypes: []string{"task.flow_success"}})
	begin := time.Now()
	for range 20 {
		r.run(auto("go"))
		fast.next()
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("20 tasks took %v", took)
	}
	r.stop() // does not wait for the receiver
}
