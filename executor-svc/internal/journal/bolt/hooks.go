package bolt

import (
	"slices"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// hooks knows in memory whose events webhooks want, so that a commit that no webhook wants costs one lookup. The webhooks themselves are read from the table.
type hooks struct {
	mu sync.RWMutex // guards the fields below
	// bySource has the enabled webhooks by sourceOf.
	bySource map[string][]hookRef
	notify   func(journal.WebhookRef)
}

// hookRef names a webhook.
type hookRef struct {
	user string
	id   uuid.UUID
}

// hookChange is a change that hooks learns of once it is durable: a webhook is enabled or disabled, or a delivery was stored for it.
type hookChange struct {
	ref hookRef
	// removed and added are the sources of a webhook before and after it changed; empty: none.
	removed, added string
	delivery       bool
}

// sourceOf returns the source of a webhook's events; empty if the webhook is nil or disabled.
func sourceOf(user string, w *storagev1.Webhook) string {
	switch {
	case w == nil || w.GetDisabled():
		return ""
	case w.GetTopicId() != "":
		return topicSource(w.GetTopicId())
	}
	return userSource(user)
}

func topicSource(id string) string  { return "t" + id }
func userSource(user string) string { return "u" + user }

// load reads all webhooks.
func (h *hooks) load(t *table) error {
	for c := t.ascend([]byte{kindWebhook}); c.next() && c.key[0] == kindWebhook; {
		w := &storagev1.Webhook{}
		if _, err := readMessage(t, c.key, c.value, w); err != nil || len(c.key) < idSize+2 {
			continue // the webhook cannot be used; a check reports it
		}
		ref := hookRef{string(c.key[1 : len(c.key)-idSize-1]), idOf(c.key)}
		h.apply(hookChange{ref: ref, added: sourceOf(ref.user, w)})
	}
	return nil
}

func (h *hooks) apply(c hookChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.delivery && h.notify != nil {
		h.notify(journal.WebhookRef{User: c.ref.user, ID: c.ref.id.String()})
	}
	if c.removed == c.added {
		return
	}
	if h.bySource == nil {
		h.bySource = map[string][]hookRef{}
	}
	if c.removed != "" {
		if h.bySource[c.removed] = withoutHook(h.bySource[c.removed], c.ref); len(h.bySource[c.removed]) == 0 {
			delete(h.bySource, c.removed)
		}
	}
	if c.added != "" {
		h.bySource[c.added] = append(withoutHook(h.bySource[c.added], c.ref), c.ref)
	}
}

// withoutHook returns a copy, because readers use the old list without the lock.
func withoutHook(refs []hookRef, ref hookRef) []hookRef {
	return slices.DeleteFunc(slices.Clone(refs), func(r hookRef) bool { return r == ref })
}

func (h *hooks) of(source string) []hookRef {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.bySource[source]
}

// putTaskEvents stores deliveries of the events of a task's new records.
func (h *hooks) putTaskEvents(t *table, o *operation, taskID string, head *storagev1.TaskHead, records []journal.Record) error {
	refs := h.of(userSource(head.GetUserSub()))
	if len(refs) == 0 {
		return nil
	}
	old := uint64(0) // a fork has the events of the task that it continues
	if forks := head.GetForks(); len(forks) > 0 {
		old = forks[len(forks)-1].GetSeq()
	}
	for _, ref := range refs {
		w := readEnabled(t, ref)
		if w == nil || w.GetTopicId() != "" || w.GetAgentId() != "" && w.GetAgentId() != head.GetAgentId() {
			continue
		}
		for _, r := range records {
			for i, f := range r.GetFacts() {
				seq := r.FirstSeq + uint64(i)
				if eventType, wants := journal.WantsTaskEvent(w, f); wants && seq > old {
					if err := putDelivery(t, o, ref, &storagev1.Delivery{EventType: eventType, TaskId: taskID, Seq: seq, CreateTime: r.GetTime(), StartTime: r.GetTime()}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// putTopicEvents stores deliveries of a topic's new events, for the webhooks of participants.
func (h *hooks) putTopicEvents(t *table, o *operation, c *topicChange) error {
	for _, ref := range h.of(topicSource(c.next.ID)) {
		w := readEnabled(t, ref)
		if w == nil || w.GetTopicId() != c.next.ID || !slices.ContainsFunc(c.next.GetParticipants(), func(p *storagev1.Participant) bool { return p.GetUserSub() == ref.user }) {
			continue
		}
		for i, f := range c.facts {
			seq := c.next.State.GetLastSeq() - uint64(len(c.facts)-1-i)
			if eventType, wants := journal.WantsTopicEvent(w, f); wants {
				if err := putDelivery(t, o, ref, &storagev1.Delivery{EventType: eventType, TopicId: c.next.ID, Seq: seq, CreateTime: c.now, StartTime: c.now}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// endTopic disables the webhooks of a topic that is deleted.
func (h *hooks) endTopic(t *table, o *operation, topicID string) error {
	source := topicSource(topicID)
	for _, ref := range h.of(source) {
		w := readEnabled(t, ref)
		if w == nil {
			continue
		}
		w.Disabled, w.DisabledReason, w.Rev = true, "its topic was deleted", w.GetRev()+1
		value, err := proto.Marshal(w)
		if err != nil {
			return invalidError("webhook", err)
		}
		if err := put(t, webhookKey(ref.user, ref.id), value); err != nil {
			return err
		}
		o.hooked = append(o.hooked, hookChange{ref: ref, removed: source})
	}
	return nil
}

// readEnabled returns a webhook; nil if it was deleted or disabled meanwhile. One that cannot be read counts as disabled, so that it does not stop tasks.
func readEnabled(t *table, ref hookRef) *storagev1.Webhook {
	w, err := readWebhook(t, webhookKey(ref.user, ref.id))
	if err != nil || w.GetDisabled() {
		return nil
	}
	return w
}

// putDelivery stores a new delivery.
func putDelivery(t *table, o *operation, ref hookRef, d *storagev1.Delivery) error {
	value, err := proto.Marshal(d)
	if err != nil {
		return invalidError("delivery", err)
	}
	o.hooked = append(o.hooked, hookChange{ref: ref, delivery: true})
	return put(t, deliveryKey(kindPending, ref.id, t.NextSequence()), value)
}
