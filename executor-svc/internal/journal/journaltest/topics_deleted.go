package journaltest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// A deleted topic is in no list, its request id is free, and a payload that another topic has stays.
func deletedTopics(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	settings := NewTopic("ann", "bob")
	settings.RequestId, settings.RequestHash = "r", []byte("hash")
	id, other := createTopic(t, j, settings, Message("1", big("m"))), createTopic(t, j, NewTopic("bob"), Message("1", big("m")))
	wantPosted(t, j, id, 2, Message("2", "two"))
	if err := j.DeleteTopic(ctx, id, settings.GetRev()+1); !errors.Is(err, journal.ErrStale) {
		t.Errorf("another rev: %v, want ErrStale", err)
	}
	if err := j.DeleteTopic(ctx, id, settings.GetRev()); err != nil {
		t.Fatal(err)
	}
	j = restart(t, j, reopen)
	if err := j.DeleteTopic(ctx, id, settings.GetRev()); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("deleted again: %v, want ErrNotFound", err)
	}
	if page, err := j.ListTopics(ctx, journal.TopicQuery{User: "bob", Limit: 9}); err != nil || len(page.Topics) != 1 || page.Topics[0].ID != other {
		t.Errorf("topics of bob: %v, %v", page, err)
	}
	if m, err := j.Message(ctx, other, "1"); err != nil || m.GetText() != big("m") {
		t.Errorf("the other topic's message: %v", err)
	}
	if _, created, err := j.CreateTopic(ctx, uuid.Must(uuid.NewV7()).String(), settings, nil, 0); err != nil || !created {
		t.Errorf("the request that created it: %v, %v", created, err)
	}
}

// A deletion leaves a disabled webhook and an entry in the outbox, which names the owners of the topic's agents.
func endingsOfDeletions(t *testing.T, j journal.Journal, reopen func() journal.Journal) {
	ctx := t.Context()
	settings := NewTopic("ann", "bob", "@x", "@y", "@z")
	settings.Participants[3].AddedBy = "bob"
	id, other := createTopic(t, j, settings, Message("1", "one")), createTopic(t, j, NewTopic("bob"))
	hook, another := putHook(t, j, "bob", &storagev1.Webhook{TopicId: id}), putHook(t, j, "bob", &storagev1.Webhook{TopicId: other})
	for _, topic := range []string{id, other} { // there must be an entry only for agents
		if err := j.DeleteTopic(ctx, topic, settings.GetRev()); err != nil {
			t.Fatal(err)
		}
		j = restart(t, j, reopen)
		if w, err := j.Webhook(ctx, another); err != nil || w.GetDisabled() != (topic == other) {
			t.Errorf("another topic's webhook: %v, %v", w, err)
		}
	}
	out, err := j.Outbox(ctx, 0, 9)
	if err != nil || len(out) != 2 || out[1].GetTopicId() != id || !slices.Equal(out[1].GetDeletedOwners(), []string{"ann", "bob"}) {
		t.Errorf("outbox: %v, %v", out, err)
	}
	if w, err := j.Webhook(ctx, hook); err != nil || !w.GetDisabled() || w.GetDisabledReason() == "" || w.GetRev() != 2 {
		t.Errorf("the topic's webhook: %v, %v", w, err)
	}
}
