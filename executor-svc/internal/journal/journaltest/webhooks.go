package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	conversationv1 "pawl.dev/proto/gen/pawl/conversation/v1"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

func webhookTests() map[string]test {
	return map[string]test{
		"Webhooks": webhooks, "DeliveriesOfTasks": deliveriesOfTasks, "DeliveriesOfTopics": deliveriesOfTopics, "StatesOfDeliveries": statesOfDeliveries,
		"DeletedWithDeliveries": deletedWithDeliveries, "NoDeliveryWithoutCommit": noDeliveryWithoutCommit,
		"OldestDeliveriesFail": oldestDeliveriesFail,
	}
}

func newRef(user string) journal.WebhookRef {
	return journal.WebhookRef{User: user, ID: uuid.Must(uuid.NewV7()).String()}
}

func putHook(t *testing.T, j journal.Journal, user string, w *storagev1.Webhook) journal.WebhookRef {
	t.Helper()
	ref := newRef(user)
	w.Rev = 1
	if err := j.PutWebhook(t.Context(), ref, w, 0, 100); err != nil {
		t.Fatal(err)
	}
	return ref
}

// pending shows the pending or failed deliveries of a webhook.
func pending(t *testing.T, j journal.Journal, ref journal.WebhookRef, failed bool) (all []string) {
	t.Helper()
	for after := uint64(0); ; {
		page, err := j.Deliveries(t.Context(), journal.DeliveryQuery{WebhookID: ref.ID, Failed: failed, After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page {
			if d.No <= after {
				t.Errorf("delivery %d follows %d", d.No, after)
			}
			after = d.No
			all = append(all, fmt.Sprintf("%s %d", d.GetEventType(), d.GetSeq()))
		}
		if len(page) < 2 {
			return all
		}
	}
}

func wantPending(t *testing.T, j journal.Journal, ref journal.WebhookRef, want ...string) {
	t.Helper()
	if got := pending(t, j, ref, false); !slices.Equal(got, want) {
		t.Errorf("pending: %q, want %q", got, want)
	}
}

func webhooks(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	ref, other := newRef("ann"), newRef("ann")
	w := &storagev1.Webhook{Url: "https://example.com", Rev: 1}
	none := newRef("ann")
	steps := []struct {
		name string
		got  error
		want error
	}{
		{"create", j.PutWebhook(ctx, ref, w, 0, 2), nil},
		{"create again", j.PutWebhook(ctx, ref, w, 0, 2), journal.ErrExists},
		{"create another", j.PutWebhook(ctx, other, w, 0, 2), nil},
		{"create too many", j.PutWebhook(ctx, newRef("ann"), w, 0, 2), journal.ErrTooMany},
		{"create for another", j.PutWebhook(ctx, newRef("bob"), w, 0, 2), nil},
		{"update", j.PutWebhook(ctx, ref, &storagev1.Webhook{DisplayName: "B", Rev: 2}, 1, 0), nil},
		{"stale update", j.PutWebhook(ctx, ref, w, 1, 0), journal.ErrStale},
		{"update of none", j.PutWebhook(ctx, none, w, 1, 0), journal.ErrNotFound},
		{"stale delete", j.DeleteWebhook(ctx, ref, 1), journal.ErrStale},
		{"delete of none", j.DeleteWebhook(ctx, none, 0), journal.ErrNotFound},
		{"delete of another's", j.DeleteWebhook(ctx, journal.WebhookRef{User: "bob", ID: ref.ID}, 0), journal.ErrNotFound},
	}
	for _, s := range steps {
		if !errors.Is(s.got, s.want) {
			t.Errorf("%s: %v, want %v", s.name, s.got, s.want)
		}
	}
	j = restart(t, j, reopen)
	first, err := j.ListWebhooks(ctx, "ann", "", 1)
	if err != nil || len(first) != 1 || first[0].ID != ref.ID || first[0].GetDisplayName() != "B" {
		t.Fatalf("%v, %v", first, err)
	}
	if rest, err := j.ListWebhooks(ctx, "ann", first[0].ID, 5); err != nil || len(rest) != 1 || rest[0].ID != other.ID {
		t.Errorf("%v, %v", rest, err)
	}
	if err := j.DeleteWebhook(ctx, ref, 2); err != nil {
		t.Error(err)
	}
	if _, err := j.Webhook(ctx, ref); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
}

// A task's commit stores deliveries for the enabled webhooks that want its events, also in the transition in which it is created, and after a restart.
func deliveriesOfTasks(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	text := []string{"task.text_add"}
	all := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: text})
	agent := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: text, AgentId: "a"})
	usual := putHook(t, j, "ann", &storagev1.Webhook{})
	off := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: text, Disabled: true})
	bobs := putHook(t, j, "bob", &storagev1.Webhook{EventTypes: text})
	n := NewTask("ann")
	n.Head.AgentId = "a"
	create(t, j, n)
	create(t, j, NewTask("ann"))
	create(t, j, NewTask("eve"))
	j = restart(t, j, reopen)
	var notified []journal.WebhookRef
	j.OnDelivery(func(ref journal.WebhookRef) { notified = append(notified, ref) })
	commitNext(t, j, n, running, nil, "x", "y")
	wantPending(t, j, all, "task.text_add 1", "task.text_add 1", "task.text_add 2", "task.text_add 3")
	wantPending(t, j, agent, "task.text_add 1", "task.text_add 2", "task.text_add 3")
	wantPending(t, j, usual)
	wantPending(t, j, off)
	wantPending(t, j, bobs)
	if len(notified) != 4 || !slices.Contains(notified, all) || !slices.Contains(notified, agent) {
		t.Errorf("notified %v", notified)
	}
	refs, err := j.PendingWebhooks(t.Context())
	if err != nil || len(refs) != 2 || !slices.Contains(refs, all) || !slices.Contains(refs, agent) {
		t.Errorf("pending webhooks %v, %v", refs, err)
	}
	if err := j.PutWebhook(t.Context(), off, &storagev1.Webhook{EventTypes: text, Rev: 2}, 1, 0); err != nil {
		t.Fatal(err)
	}
	if err := j.DeleteWebhook(t.Context(), all, 0); err != nil {
		t.Fatal(err)
	}
	commitNext(t, j, n, running, nil, "z")
	wantPending(t, j, off, "task.text_add 4")
	wantPending(t, j, all)

	c := claimTask(t, j, n.ID)
	end := transition(t, j, n, c.Epoch, success, nil, "end")
	end.Record.Facts[0].Kind = &storagev1.Fact_FlowSuccess{FlowSuccess: &storagev1.FlowSuccess{}}
	if err := j.Commit(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	wantPending(t, j, usual, "task.flow_success 5")
}

// A topic's commit stores deliveries for the webhooks of its participants.
func deliveriesOfTopics(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	ctx := t.Context()
	id := uuid.Must(uuid.NewV7()).String()
	message := func(id string) *storagev1.TopicFact {
		return &storagev1.TopicFact{Kind: &storagev1.TopicFact_Message{Message: &storagev1.TopicMessage{Id: id}}}
	}
	ann := putHook(t, j, "ann", &storagev1.Webhook{TopicId: id})
	bob := putHook(t, j, "bob", &storagev1.Webhook{TopicId: id})
	tasks := putHook(t, j, "ann", &storagev1.Webhook{})
	topic := &storagev1.Topic{
		UserSub: "ann", Rev: 1, CreateTime: start.UnixNano(),
		Participants: []*storagev1.Participant{{Name: "ann", UserSub: "ann", Role: conversationv1.Role_ROLE_OWNER}},
	}
	if _, _, err := j.CreateTopic(ctx, id, topic, []*storagev1.TopicFact{{Kind: &storagev1.TopicFact_AgentThinking{AgentThinking: true}}}, 0); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"1", "1", "2"} { // the second changes nothing
		if _, _, err := j.Post(ctx, journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{message(m)}}); err != nil {
			t.Fatal(err)
		}
	}
	wantPending(t, j, ann, "topic.new_message 2", "topic.new_message 3")
	wantPending(t, j, bob)
	n := NewTask("eve")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	tr := transition(t, j, n, c.Epoch, running, nil, "x")
	tr.Post = &journal.Post{TopicID: id, Now: start, Facts: []*storagev1.TopicFact{message("2"), message("3")}} // the topic has message 2
	if err := j.Commit(ctx, tr); err != nil {
		t.Fatal(err)
	}
	wantPending(t, j, ann, "topic.new_message 2", "topic.new_message 3", "topic.new_message 4")
	wantPending(t, j, tasks)
}

// A delivery is pending or failed, until it is delivered.
func statesOfDeliveries(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	ref := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: []string{"task.text_add"}})
	createMany(t, j, "ann", "ann", "ann")
	ds, err := j.Deliveries(ctx, journal.DeliveryQuery{WebhookID: ref.ID, Limit: 10})
	if err != nil || len(ds) != 3 || ds[0].GetTaskId() == "" || ds[0].GetCreateTime() != 1 {
		t.Fatalf("%v, %v", ds, err)
	}
	put := func(d journal.Delivery, failed bool) {
		t.Helper()
		d.Attempts++
		if err := j.PutDelivery(ctx, ref.ID, d, failed); err != nil {
			t.Fatal(err)
		}
	}
	put(ds[0], false)
	put(ds[1], true)
	if err := j.Delivered(ctx, ref.ID, ds[2].No); err != nil {
		t.Fatal(err)
	}
	j = restart(t, j, reopen)
	for i, want := range []struct {
		failed   bool
		attempts uint32
		err      error
	}{{false, 1, nil}, {true, 1, nil}, {false, 0, journal.ErrNotFound}} {
		if d, failed, err := j.Delivery(ctx, ref.ID, ds[i].No); !errors.Is(err, want.err) || err == nil && (failed != want.failed || d.GetAttempts() != want.attempts) {
			t.Errorf("%d: %v, %t, %v", i, d, failed, err)
		}
	}
	redeliver(t, j, ref, ds[1])
	if _, err := j.Redeliver(ctx, ref.ID, ds[2].No, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a delivery that is gone is redelivered: %v", err)
	}
	if got := pending(t, j, ref, true); len(got) != 0 || len(pending(t, j, ref, false)) != 2 {
		t.Errorf("failed %v", got)
	}
	if err := j.PutDelivery(ctx, ref.ID, ds[2], true); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a delivery that is gone: %v", err)
	}
}

// redeliver redelivers twice: the outcome of an attempt that began before does not count.
func redeliver(t *testing.T, j journal.Journal, ref journal.WebhookRef, attempted journal.Delivery) {
	t.Helper()
	again, err := j.Redeliver(t.Context(), ref.ID, attempted.No, 5)
	if err != nil || again.GetStartTime() != 5 || again.GetAttempts() != 0 || again.GetTaskId() != attempted.GetTaskId() {
		t.Errorf("redelivered: %v, %v", again, err)
	}
	if err := j.PutDelivery(t.Context(), ref.ID, attempted, true); !errors.Is(err, journal.ErrStale) {
		t.Errorf("the outcome of an attempt before the redelivery: %v", err)
	}
	if again, err = j.Redeliver(t.Context(), ref.ID, attempted.No, 1); err != nil || again.GetStartTime() != 6 {
		t.Errorf("redelivered at an earlier time: %v, %v", again, err)
	}
}

// A deleted webhook has no deliveries, and none can be stored for it.
func deletedWithDeliveries(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	ctx := t.Context()
	ref := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: []string{"task.text_add"}})
	createMany(t, j, "ann", "ann")
	ds, err := j.Deliveries(ctx, journal.DeliveryQuery{WebhookID: ref.ID, Limit: 10})
	if err != nil || len(ds) != 2 {
		t.Fatalf("%v, %v", ds, err)
	}
	if err := j.PutDelivery(ctx, ref.ID, ds[0], true); err != nil {
		t.Fatal(err)
	}
	if err := j.DeleteWebhook(ctx, ref, 0); err != nil {
		t.Fatal(err)
	}
	if left := append(pending(t, j, ref, true), pending(t, j, ref, false)...); len(left) != 0 {
		t.Errorf("deliveries of a deleted webhook: %v", left)
	}
	if err := j.PutDelivery(ctx, ref.ID, ds[1], false); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("a delivery of a deleted webhook: %v", err)
	}
}

// The oldest pending deliveries fail with a reason; of those that failed, the newest are kept.
func oldestDeliveriesFail(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	ref := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: []string{"task.text_add"}})
	other := putHook(t, j, "bob", &storagev1.Webhook{EventTypes: []string{"task.text_add"}})
	createMany(t, j, "ann", "bob", "ann", "bob", "ann", "ann")
	before, err := j.Deliveries(ctx, journal.DeliveryQuery{WebhookID: ref.ID, Limit: 10})
	if err != nil || len(before) != 4 {
		t.Fatalf("%v, %v", before, err)
	}
	fail := func(ref journal.WebhookRef, keep, want int) {
		t.Helper()
		if n, err := j.FailOldest(ctx, ref.ID, keep, "too many"); err != nil || n != want {
			t.Errorf("FailOldest of all but %d: %d, %v; want %d", keep, n, err, want)
		}
	}
	fail(ref, 9, 0)
	fail(ref, 4, 0)
	fail(ref, 1, 3)
	fail(newRef("ann"), 0, 0)
	j = restart(t, j, reopen)
	for i, d := range before {
		now, failed, err := j.Delivery(ctx, ref.ID, d.No)
		if old := i < 3; err != nil || failed != old || now.GetTaskId() != d.GetTaskId() || (now.GetError() == "too many") != old {
			t.Errorf("delivery %d: %v, %t, %v", i, now, failed, err)
		}
	}
	if got := pending(t, j, other, false); len(got) != 2 {
		t.Errorf("of the other webhook: %v", got)
	}
}

// A commit that is refused stores no delivery.
func noDeliveryWithoutCommit(t *testing.T, j journal.Journal, _ func() journal.Journal) {
	ref := putHook(t, j, "ann", &storagev1.Webhook{EventTypes: []string{"task.text_add"}})
	n := NewTask("ann")
	create(t, j, n)
	c := claimTask(t, j, n.ID)
	stale := transition(t, j, n, c.Epoch+1, running, nil, "x")
	if err := j.Commit(context.Background(), stale); !errors.Is(err, journal.ErrStale) {
		t.Fatal(err)
	}
	wantPending(t, j, ref, "task.text_add 1")
}
