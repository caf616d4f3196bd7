package bolt

import (
	"bytes"
	"context"
	"math"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// PutWebhook implements journal.Webhooks.
func (s *Store) PutWebhook(ctx context.Context, ref journal.WebhookRef, w *storagev1.Webhook, ifRev uint64, limit int) error {
	value, err := proto.Marshal(w)
	if err != nil {
		return invalidError("webhook", err)
	}
	return s.changeWebhook(ctx, ref, func(t *table, r hookRef, key []byte) (*storagev1.Webhook, error) {
		old, err := readWebhook(t, key)
		switch {
		case ifRev != 0 && err != nil:
			return nil, err
		case ifRev != 0 && old.GetRev() != ifRev:
			return nil, journal.ErrStale
		case ifRev == 0 && t.Get(key) != nil:
			return nil, journal.ErrExists
		case ifRev == 0 && count(t, userPrefix(kindWebhook, r.user), limit) >= limit:
			return nil, journal.ErrTooMany
		}
		return w, put(t, key, value)
	})
}

// DeleteWebhook implements journal.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, ref journal.WebhookRef, ifRev uint64) error {
	return s.changeWebhook(ctx, ref, func(t *table, r hookRef, key []byte) (*storagev1.Webhook, error) {
		old, err := readWebhook(t, key)
		switch {
		case err != nil:
			return nil, err
		case ifRev != 0 && old.GetRev() != ifRev:
			return nil, journal.ErrStale
		}
		t.Delete(key)
		for _, kind := range []byte{kindPending, kindFailed} {
			var keys [][]byte
			for c := t.ascend(ownerPrefix(kind, r.id)); c.next() && hasPrefix(c.key, ownerPrefix(kind, r.id)); {
				keys = append(keys, bytes.Clone(c.key))
			}
			for _, k := range keys {
				t.Delete(k)
			}
		}
		return nil, nil
	})
}

// changeWebhook makes a change, which returns the webhook after it, or nil.
func (s *Store) changeWebhook(ctx context.Context, ref journal.WebhookRef, change func(t *table, r hookRef, key []byte) (*storagev1.Webhook, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(ref.ID)
	if err != nil {
		return err
	}
	r, key := hookRef{ref.User, id}, webhookKey(ref.User, id)
	return s.c.do(func(t *table, o *operation) error {
		old, _ := readWebhook(t, key)
		next, err := change(t, r, key)
		if err == nil {
			o.hooked = append(o.hooked, hookChange{ref: r, removed: sourceOf(r.user, old), added: sourceOf(r.user, next)})
		}
		return err
	})
}

// readWebhook returns a webhook; ErrNotFound if there is none.
func readWebhook(t *table, key []byte) (*storagev1.Webhook, error) {
	stored := t.Get(key)
	if stored == nil {
		return nil, journal.ErrNotFound
	}
	w := &storagev1.Webhook{}
	_, err := readMessage(t, key, stored, w)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// count counts the entries with a prefix, up to most.
func count(t *table, prefix []byte, most int) (n int) {
	for c := t.ascend(prefix); n < most && c.next() && hasPrefix(c.key, prefix); {
		n++
	}
	return n
}

// Webhook implements journal.Webhooks.
func (s *Store) Webhook(_ context.Context, ref journal.WebhookRef) (w *storagev1.Webhook, err error) {
	id, err := parseID(ref.ID)
	if err != nil {
		return nil, err
	}
	err = s.file.view(func(t *table) error {
		w, err = readWebhook(t, webhookKey(ref.User, id))
		return err
	})
	return w, err
}

// ListWebhooks implements journal.Webhooks.
func (s *Store) ListWebhooks(_ context.Context, user, after string, limit int) (all []journal.WebhookEntry, err error) {
	last, _ := uuid.Parse(after) // the zero id is less than all
	prefix := userPrefix(kindWebhook, user)
	err = s.file.view(func(t *table) error {
		for c := t.ascend(webhookKey(user, last)); len(all) < limit && c.next() && hasPrefix(c.key, prefix); {
			w, err := readWebhook(t, c.key)
			if err != nil {
				return err
			}
			if id := idOf(c.key); id != last {
				all = append(all, journal.WebhookEntry{ID: id.String(), Webhook: w})
			}
		}
		return nil
	})
	return all, err
}

// Deliveries implements journal.Webhooks.
func (s *Store) Deliveries(_ context.Context, q journal.DeliveryQuery) (all []journal.Delivery, err error) {
	id, err := parseID(q.WebhookID)
	if err != nil || q.After == math.MaxUint64 {
		return nil, err
	}
	kind := byte(kindPending)
	if q.Failed {
		kind = kindFailed
	}
	err = s.file.view(func(t *table) error {
		for c := t.ascend(deliveryKey(kind, id, q.After+1)); len(all) < q.Limit && c.next() && hasPrefix(c.key, ownerPrefix(kind, id)); {
			d := &storagev1.Delivery{}
			if _, err := readMessage(t, c.key, c.value, d); err != nil {
				return err
			}
			all = append(all, journal.Delivery{No: numberOf(c.key), Delivery: d})
		}
		return nil
	})
	return all, err
}

// Delivery implements journal.Webhooks.
func (s *Store) Delivery(_ context.Context, webhookID string, no uint64) (d *storagev1.Delivery, failed bool, err error) {
	id, err := parseID(webhookID)
	if err != nil {
		return nil, false, err
	}
	err = s.file.view(func(t *table) error {
		d, failed, err = readDelivery(t, id, no)
		return err
	})
	return d, failed, err
}

// readDelivery returns a delivery, and whether it has failed.
func readDelivery(t *table, id uuid.UUID, no uint64) (d *storagev1.Delivery, failed bool, err error) {
	key := deliveryKey(kindPending, id, no)
	if failed = t.Get(key) == nil; failed {
		key = deliveryKey(kindFailed, id, no)
	}
	stored := t.Get(key)
	if stored == nil {
		return nil, failed, journal.ErrNotFound
	}
	d = &storagev1.Delivery{}
	_, err = readMessage(t, key, stored, d)
	return d, failed, err
}

// PutDelivery implements journal.Webhooks.
func (s *Store) PutDelivery(ctx context.Context, webhookID string, d journal.Delivery, failed bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(webhookID)
	if err != nil {
		return err
	}
	return s.c.do(func(t *table, _ *operation) error {
		stored, had, err := readDelivery(t, id, d.No)
		switch {
		case err != nil:
			return err // the webhook was deleted
		case stored.GetStartTime() != d.GetStartTime():
			return journal.ErrStale
		}
		return replaceDelivery(t, id, d, had, failed)
	})
}

// Redeliver implements journal.Webhooks.
func (s *Store) Redeliver(ctx context.Context, webhookID string, no uint64, now int64) (d journal.Delivery, err error) {
	if err := ctx.Err(); err != nil {
		return d, err
	}
	id, err := parseID(webhookID)
	if err != nil {
		return d, err
	}
	err = s.c.do(func(t *table, _ *operation) error {
		stored, had, err := readDelivery(t, id, no)
		if err != nil {
			return err
		}
		d = journal.Delivery{No: no, Delivery: stored}
		d.StartTime, d.NextTime, d.Attempts, d.Refusals = max(now, d.GetStartTime()+1), 0, 0, 0 // never the same StartTime, which PutDelivery compares
		return replaceDelivery(t, id, d, had, false)
	})
	return d, err
}

// replaceDelivery replaces a delivery that had failed or not.
func replaceDelivery(t *table, id uuid.UUID, d journal.Delivery, had, failed bool) error {
	kind := map[bool]byte{false: kindPending, true: kindFailed}
	value, err := proto.Marshal(d.Delivery)
	if err != nil {
		return invalidError("delivery", err)
	}
	if had != failed {
		t.Delete(deliveryKey(kind[had], id, d.No))
	}
	if err := put(t, deliveryKey(kind[failed], id, d.No), value); err != nil {
		return err
	}
	if failed {
		dropOldestFailed(t, id)
	}
	return nil
}

// dropOldestFailed removes the failed deliveries of a webhook that are not kept.
func dropOldestFailed(t *table, id uuid.UUID) {
	for _, e := range oldest(t, ownerPrefix(kindFailed, id), journal.MaxFailedDeliveries) {
		t.Delete(e.key)
	}
}

// oldest returns the first entries with a prefix, all but the last keep.
func oldest(t *table, prefix []byte, keep int) (all []checkedEntry) {
	n := count(t, prefix, math.MaxInt) - keep
	for c := t.ascend(prefix); len(all) < n && c.next(); {
		all = append(all, checkedEntry{bytes.Clone(c.key), bytes.Clone(c.value)})
	}
	return all
}

// FailOldest implements journal.Webhooks.
func (s *Store) FailOldest(ctx context.Context, webhookID string, keep int, reason string) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	id, err := parseID(webhookID)
	if err != nil {
		return 0, err
	}
	prefix := ownerPrefix(kindPending, id)
	err = s.file.view(func(t *table) error { n = count(t, prefix, keep+1); return nil })
	if err != nil || n <= keep {
		return 0, err
	}
	err = s.c.do(func(t *table, _ *operation) error {
		old := oldest(t, prefix, keep)
		n = len(old)
		failed := make([][]byte, n)
		for i, e := range old {
			d := &storagev1.Delivery{}
			if _, err := readMessage(t, e.key, e.value, d); err != nil {
				return err
			}
			d.NextTime, d.Error = 0, reason
			if failed[i], err = proto.Marshal(d); err != nil {
				return invalidError("delivery", err)
			}
		}
		for i, e := range old {
			t.Delete(e.key)
			if err := put(t, deliveryKey(kindFailed, id, numberOf(e.key)), failed[i]); err != nil {
				return err
			}
		}
		dropOldestFailed(t, id)
		return nil
	})
	return n, err
}

// Delivered implements journal.Webhooks.
func (s *Store) Delivered(ctx context.Context, webhookID string, no uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, err := parseID(webhookID)
	if err != nil {
		return err
	}
	return s.c.do(func(t *table, _ *operation) error {
		t.Delete(deliveryKey(kindPending, id, no))
		return nil
	})
}

// PendingWebhooks implements journal.Webhooks.
func (s *Store) PendingWebhooks(context.Context) (all []journal.WebhookRef, err error) {
	err = s.file.view(func(t *table) error {
		for c := t.ascend([]byte{kindWebhook}); c.next() && c.key[0] == kindWebhook; {
			if len(c.key) < idSize+2 {
				continue
			}
			if id := idOf(c.key); count(t, ownerPrefix(kindPending, id), 1) > 0 {
				all = append(all, journal.WebhookRef{User: string(c.key[1 : len(c.key)-idSize-1]), ID: id.String()})
			}
		}
		return nil
	})
	return all, err
}

// OnDelivery implements journal.Webhooks.
func (s *Store) OnDelivery(notify func(journal.WebhookRef)) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.notify = notify
}
