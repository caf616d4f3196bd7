package registry

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"pawl.dev/mcppool-svc/internal/store"
)

// Create registers a server. With a requestID, repeating the same request (the same digest) returns the first answer.
// Errors: ErrExists where the owner sees a server of that id already, ErrRequestReused, ErrStorage.
func (r *Registry) Create(user, requestID, digest string, s *Server) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	key := requestKey(user, requestID)
	if requestID != "" {
		if answer, err := r.answered(key, digest); answer != nil || err != nil {
			return answer, err
		}
	}
	if _, err := r.Lookup(s.Owner, s.ID); err == nil {
		return nil, ErrExists
	}
	uid, err := newUID()
	if err != nil {
		return nil, err
	}
	s = s.Clone()
	s.UID, s.Generation, s.FromConfig = uid, 1, false
	s.CreateTime = r.now().UTC()
	s.UpdateTime = s.CreateTime

	changes := []store.Change{{Bucket: bucketServers, Key: s.Key(), Value: encode(toRecord(s))}}
	old := r.oldRequests()
	for _, key := range old {
		changes = append(changes, store.Change{Bucket: bucketRequests, Key: key})
	}
	q := request{Version: recordVersion, Digest: digest, Answer: toRecord(s), Time: s.CreateTime}
	if requestID != "" {
		changes = append(changes, store.Change{Bucket: bucketRequests, Key: key, Value: encode(q)})
	}
	err = r.commit(s.Owner, changes, func() {
		r.servers[s.Key()] = s.Seal()
		for _, key := range old {
			delete(r.requests, key)
		}
		if requestID != "" {
			r.requests[key] = q
		}
	})
	return s, err
}

// answered returns the answer to a request that was answered before; nil if it was not.
func (r *Registry) answered(key, digest string) (*Server, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	q, known := r.requests[key]
	switch {
	case !known || r.now().Sub(q.Time) >= requestMemory:
		return nil, nil
	case q.Digest != digest:
		return nil, ErrRequestReused
	default:
		return q.Answer.server(), nil
	}
}

// oldRequests returns the keys of creates that are too old to be repeated.
func (r *Registry) oldRequests() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var keys []string
	for key, q := range r.requests {
		if r.now().Sub(q.Time) >= requestMemory {
			keys = append(keys, key)
		}
	}
	return keys
}

// Update replaces a server by what edit makes of a copy of it. edit's error is returned as it is. Others: ErrNotFound,
// ErrFromConfig, ErrChanged where etag is set and not current, ErrStorage.
func (r *Registry) Update(owner, id, etag string, edit func(*Server) error) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	current, err := r.changeable(owner, id, etag)
	if err != nil {
		return nil, err
	}
	s := current.Clone()
	if err := edit(s); err != nil {
		return nil, err
	}
	s.Generation++
	if s.Change, err = newChange(); err != nil {
		return nil, err
	}
	s.KeepMeaning(current)
	s.UpdateTime = r.now().UTC()
	err = r.commit(s.Owner, []store.Change{{Bucket: bucketServers, Key: s.Key(), Value: encode(toRecord(s))}}, func() { r.servers[s.Key()] = s.Seal() })
	return s, err
}

// Delete removes a server and what users said of it, and returns it. Errors as of Update.
func (r *Registry) Delete(owner, id, etag string) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	s, err := r.changeable(owner, id, etag)
	if err != nil {
		return nil, err
	}
	changes := []store.Change{{Bucket: bucketServers, Key: s.Key()}}
	isOf := func(key string, _ bool) bool { return key == keyUser(key)+"\x00"+s.Key() }
	r.mu.RLock()
	for key, active := range r.active {
		if isOf(key, active) {
			changes = append(changes, store.Change{Bucket: bucketActivations, Key: key})
		}
	}
	r.mu.RUnlock()
	err = r.commit(s.Owner, changes, func() {
		delete(r.servers, s.Key())
		maps.DeleteFunc(r.active, isOf)
	})
	return s, err
}

// keyUser is the user of an activation's key.
func keyUser(key string) string {
	user, _, _ := strings.Cut(key, "\x00")
	return user
}

// SetActive records a user's word on a server.
func (r *Registry) SetActive(user string, s *Server, active bool) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	key := activationKey(user, s)
	value := encode(activation{Version: recordVersion, Active: active})
	return r.commit(user, []store.Change{{Bucket: bucketActivations, Key: key, Value: value}}, func() { r.active[key] = active })
}

// changeable finds a server that may be changed.
func (r *Registry) changeable(owner, id, etag string) (*Server, error) {
	s, err := r.Of(owner, id)
	switch {
	case err != nil:
		return nil, err
	case s.FromConfig:
		return nil, ErrFromConfig
	case etag != "" && etag != s.Etag():
		return nil, ErrChanged
	}
	return s, nil
}

// commit stores changes, for one user or for all, and only then shows them.
func (r *Registry) commit(user string, changes []store.Change, show func()) error {
	if err := r.store.Apply(changes...); err != nil {
		return errors.Join(ErrStorage, fmt.Errorf("writing the registered MCP servers: %w", err))
	}
	r.mu.Lock()
	show()
	r.settle(changes)
	r.mu.Unlock()
	if r.changed != nil {
		r.changed(user)
	}
	return nil
}
