package registry

import (
	"errors"
	"fmt"

	"github.com/google/uuid"

	"pawl.dev/mcppool-svc/internal/store"
)

// Create registers a server. With a requestID, repeating the same request (the same digest) returns the server while there is one.
// Errors: ErrExists where the owner sees a server of that id already, ErrRequestReused, ErrStorage.
func (r *Registry) Create(user, requestID, digest string, s *Server) (*Server, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	request := ""
	if requestID != "" {
		request = pairKey(user, requestID)
		for _, made := range r.All() {
			switch {
			case made.Request != request:
			case made.RequestDigest != digest:
				return nil, ErrRequestReused
			default:
				return made, nil
			}
		}
	}
	if _, err := r.Lookup(s.Owner, s.ID); err == nil {
		return nil, ErrExists
	}
	s = s.Clone()
	s.UID, s.Generation, s.FromConfig = uuid.Must(uuid.NewV7()).String(), 1, false
	s.Request, s.RequestDigest = request, digest
	s.CreateTime = r.now().UTC()
	s.UpdateTime = s.CreateTime
	return s, r.commit(s.Owner, []store.Change{s.change()})
}

// change stores a server.
func (s *Server) change() store.Change {
	return store.Change{Bucket: bucketServers, Key: s.Key(), Value: encode(record{recordVersion, *s})}
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
	s.Change = uuid.NewString()
	s.KeepMeaning(current)
	s.UpdateTime = r.now().UTC()
	return s, r.commit(s.Owner, []store.Change{s.change()})
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
	r.mu.RLock()
	for key := range r.active {
		if key == pairKey(keyUser(key), s.Key()) {
			changes = append(changes, store.Change{Bucket: bucketActivations, Key: key})
		}
	}
	r.mu.RUnlock()
	return s, r.commit(s.Owner, changes)
}

// SetActive records a user's choice whether a server is active.
func (r *Registry) SetActive(user string, s *Server, active bool) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	value := encode(activation{Version: recordVersion, Active: active})
	return r.commit(user, []store.Change{{Bucket: bucketActivations, Key: pairKey(user, s.Key()), Value: value}})
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

// commit stores changes, for one user or for all, and shows what is stored by then: another replica may have written too.
func (r *Registry) commit(user string, changes []store.Change) error {
	if err := r.store.Apply(changes...); err != nil {
		return errors.Join(ErrStorage, fmt.Errorf("writing the registered MCP servers: %w", err))
	}
	r.mu.Lock()
	for _, c := range changes {
		r.reload(c.Bucket, c.Key)
	}
	r.mu.Unlock()
	if r.changed != nil {
		r.changed(user)
	}
	return nil
}
