package registry

import (
	"fmt"

	"pawl.dev/mcppool-svc/internal/replica"
)

// ServerChange is a change made by another replica, for closing or reopening connections.
type ServerChange struct {
	Before *Server // nil if the server is new
	Now    *Server // nil if the server was removed
	User   string  // who activated or deactivated the server
}

// ApplyRemote applies what other replicas wrote, and returns the servers that changed.
func (r *Registry) ApplyRemote(places []replica.Place) []ServerChange {
	var moved []ServerChange
	owners := make(map[string]bool)
	r.mu.Lock()
	for _, p := range places {
		switch p.Bucket {
		case bucketServers:
			before := r.servers[p.Key]
			r.reload(p.Bucket, p.Key)
			if now := r.servers[p.Key]; now != before {
				moved = append(moved, ServerChange{Before: before, Now: now})
			}
			owners[keyUser(p.Key)] = true
		case bucketActivations:
			r.reload(p.Bucket, p.Key)
			user := keyUser(p.Key)
			if s := r.servers[p.Key[min(len(user)+1, len(p.Key)):]]; s != nil {
				moved = append(moved, ServerChange{Before: s, Now: s, User: user})
			}
			owners[user] = true
		}
	}
	r.mu.Unlock()
	if r.changed != nil {
		for owner := range owners {
			r.changed(owner)
		}
	}
	return moved
}

// reload replaces one entry by the stored one; an unreadable value leaves it unchanged. Called with mu held.
func (r *Registry) reload(bucket, key string) {
	value, err := r.store.Get(bucket, key)
	if err == nil && bucket == bucketServers && r.servers[key] != nil && r.servers[key].FromConfig {
		return // the configuration file wins
	}
	switch {
	case err != nil:
	case value != nil:
		err = r.read(bucket, key, value)
	case bucket == bucketServers:
		delete(r.servers, key)
	case bucket == bucketActivations:
		delete(r.active, key)
	}
	if err != nil {
		r.log.Error("what another replica wrote of an MCP server cannot be read", "error", err)
	}
}

// Readable reports whether this program can read a stored value.
func Readable(bucket, key string, value []byte) bool {
	var err error
	switch bucket {
	case bucketServers:
		var rec record
		if err = decode(value, &rec); err == nil && rec.Key() != key {
			err = fmt.Errorf("it is of another server")
		}
	case bucketActivations:
		err = decode(value, &activation{})
	case bucketTransportHints, bucketAnonymousElicitors:
		err = decode(value, &memoryRecord{})
	}
	return err == nil
}

// LowPriorityBuckets returns the buckets whose changes other replicas may learn a little later.
func LowPriorityBuckets() []string { return []string{bucketTransportHints, bucketAnonymousElicitors} }

// ApplyRemote applies what other replicas wrote.
func (w *Memory) ApplyRemote(places []replica.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range places {
		if p.Bucket != w.bucket {
			continue
		}
		value, err := w.store.Get(p.Bucket, p.Key)
		if err == nil {
			err = w.set(p.Key, value)
		}
		if err != nil {
			w.log.Warn("what another replica found out about an MCP server cannot be read", "what", w.bucket, "error", err)
		}
	}
}
