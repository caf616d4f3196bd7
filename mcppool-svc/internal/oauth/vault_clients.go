package oauth

import (
	"fmt"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
)

func (v *vault) registration(key string) (registration, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r, ok := v.clients[key]
	return r, ok
}

// putRegistration stores a client; if there are too many, the oldest is dropped.
func (v *vault) putRegistration(key string, r registration) error {
	v.writes.Lock()
	defer v.writes.Unlock()
	changes := []store.Change{{Bucket: bucketClients, Key: key, Value: v.seal(bucketClients, key, r)}}
	v.mu.RLock()
	var spare string
	if _, known := v.clients[key]; !known && len(v.clients) >= maxRegistrations {
		spare = store.Oldest(v.clients, func(r registration) time.Time { return r.Time })
		changes = append(changes, store.Change{Bucket: bucketClients, Key: spare})
	}
	v.mu.RUnlock()
	if err := v.store.Apply(changes...); err != nil {
		return fmt.Errorf("%w: storing a registered client: %w", ErrStorage, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.clients, spare)
	v.clients[key] = r
	v.reloadChanged(changes)
	return nil
}

// dropRegistration deletes a client. If that cannot be stored, the next login finds out again.
func (v *vault) dropRegistration(key string) {
	v.writes.Lock()
	defer v.writes.Unlock()
	_ = v.store.Apply(store.Change{Bucket: bucketClients, Key: key})
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.clients, key)
}

// boundTo is the issuer that a configured client belongs to; empty: none yet.
func (v *vault) boundTo(key string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.issuers[key]
}

// unbind lets a configured client belong to another issuer.
func (v *vault) unbind(key string) error {
	if v.boundTo(key) == "" {
		return nil
	}
	v.writes.Lock()
	defer v.writes.Unlock()
	if err := v.store.Apply(store.Change{Bucket: bucketIssuers, Key: key}); err != nil {
		return fmt.Errorf("%w: forgetting which authorization server a client is of: %w", ErrStorage, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.issuers, key)
	return nil
}

func (v *vault) bind(key, issuer string) error {
	if v.boundTo(key) == issuer {
		return nil
	}
	v.writes.Lock()
	defer v.writes.Unlock()
	change := store.Change{Bucket: bucketIssuers, Key: key, Value: v.seal(bucketIssuers, key, binding{issuer})}
	if err := v.store.Apply(change); err != nil {
		return fmt.Errorf("%w: storing which authorization server a client is of: %w", ErrStorage, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issuers[key] = issuer
	v.reloadChanged([]store.Change{change})
	return nil
}
