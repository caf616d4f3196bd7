package registry

import (
	"fmt"

	"pawl.dev/mcppool-svc/internal/replica"
)

// Moved is what a change that was made elsewhere means for connections.
type Moved struct {
	Before *Server // nil: there was none
	Now    *Server // nil: there is none
	User   string  // who activated or deactivated the server
}

// Applied takes in what other replicas wrote.
func (r *Registry) Applied(places []replica.Place) []Moved {
	var moved []Moved
	owners := make(map[string]bool)
	r.mu.Lock()
	for _, p := range places {
		switch p.Bucket {
		case bucketServers:
			before := r.servers[p.Key]
			r.reload(p.Bucket, p.Key)
			if now := r.servers[p.Key]; now != before {
				moved = append(moved, Moved{Before: before, Now: now})
			}
			owners[keyUser(p.Key)] = true
		case bucketActivations:
			r.reload(p.Bucket, p.Key)
			user := keyUser(p.Key)
			if s := r.servers[p.Key[min(len(user)+1, len(p.Key)):]]; s != nil {
				moved = append(moved, Moved{Before: s, Now: s, User: user})
			}
			owners[user] = true
		case bucketRequests:
			r.reload(p.Bucket, p.Key)
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

// reload makes one entry what is stored. What cannot be read leaves it as it was. Called with mu held.
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
	case bucket == bucketRequests:
		delete(r.requests, key)
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
	case bucketRequests:
		err = decode(value, &request{})
	case bucketWays, bucketAskers:
		err = decode(value, &wayRecord{})
	}
	return err == nil
}

// Lazy are the buckets that other replicas may learn of a little later.
func Lazy() []string { return []string{bucketWays, bucketAskers} }

// Applied takes in what other replicas wrote.
func (w *Memory) Applied(places []replica.Place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range places {
		if p.Bucket != w.bucket {
			continue
		}
		var r wayRecord
		value, err := w.store.Get(p.Bucket, p.Key)
		if err == nil && value != nil {
			err = decode(value, &r)
		}
		switch {
		case err != nil:
			w.log.Warn("what another replica found out about an MCP server cannot be read", "what", w.bucket, "error", err)
		case value == nil:
			delete(w.ways, p.Key)
		default:
			w.ways[p.Key] = r
		}
	}
}
