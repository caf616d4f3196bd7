package registry

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"pawl.dev/mcppool-svc/internal/replica"
	"pawl.dev/mcppool-svc/internal/store"
)

const (
	bucketTransportHints     = "ways"   // Server.Origin → memoryRecord: how it was reached, if that is not what is tried first
	bucketAnonymousElicitors = "askers" // Server.Origin → memoryRecord: it asks for input without saying for which call
	// maxRemembered bounds the entries of a Memory; the oldest are dropped.
	maxRemembered = 10_000
	// transportHintAge is how long an entry of bucketTransportHints counts. An upgraded server may still accept the older transport or
	// revision, so the newer one is tried again now and then; that costs one request when a connection is made.
	transportHintAge = 24 * time.Hour
)

// Memory remembers properties of servers that were found out by connecting. It is safe for concurrent use.
type Memory struct {
	bucket string
	age    time.Duration // how long it is believed; 0: for good
	store  store.Store
	log    *slog.Logger
	now    func() time.Time

	mu      sync.Mutex
	entries map[string]memoryRecord // guarded by mu; by Server.Origin
}

// memoryRecord is a stored entry of a Memory.
type memoryRecord struct {
	Version int       `json:"v"`
	Value   string    `json:"way"`
	Time    time.Time `json:"time"`
}

// NewTransportHints reads by which transport and revision servers were reached the last time.
func NewTransportHints(st store.Store, now func() time.Time, log *slog.Logger) (*Memory, error) {
	return newMemory(bucketTransportHints, transportHintAge, st, now, log)
}

// NewAnonymousElicitors reads which servers ask for input without naming the call.
func NewAnonymousElicitors(st store.Store, now func() time.Time, log *slog.Logger) (*Memory, error) {
	return newMemory(bucketAnonymousElicitors, 0, st, now, log)
}

func newMemory(bucket string, age time.Duration, st store.Store, now func() time.Time, log *slog.Logger) (*Memory, error) {
	w := &Memory{bucket: bucket, age: age, store: st, log: log, now: now, entries: make(map[string]memoryRecord)}
	if err := st.Load(bucket, w.set); err != nil {
		return nil, fmt.Errorf("reading what was found out about MCP servers: %w", err)
	}
	return w, nil
}

// set makes one entry the stored value; nil deletes it. Called with mu held, or before there are other users.
func (w *Memory) set(origin string, value []byte) error {
	if value == nil {
		delete(w.entries, origin)
		return nil
	}
	var r memoryRecord
	if err := decode(value, &r); err != nil {
		return fmt.Errorf("entry %q of %s: %w", origin, w.bucket, err)
	}
	w.entries[origin] = r
	return nil
}

// Recall returns what is known of a server; empty if nothing is, or if it is too old.
func (w *Memory) Recall(origin string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.entries[origin]
	if age := w.now().Sub(r.Time); w.age > 0 && (age >= w.age || age < 0) {
		return "" // replaced by what is found out now
	}
	return r.Value
}

// Remember replaces what is known; an empty value forgets it. Anything that cannot be stored is found out again after a restart.
func (w *Memory) Remember(origin, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := []store.Change{{Bucket: w.bucket, Key: origin}}
	if value == "" {
		delete(w.entries, origin)
	} else {
		if _, known := w.entries[origin]; !known && len(w.entries) >= maxRemembered {
			oldest := store.Oldest(w.entries, func(r memoryRecord) time.Time { return r.Time })
			delete(w.entries, oldest)
			changes = append(changes, store.Change{Bucket: w.bucket, Key: oldest})
		}
		r := memoryRecord{Version: recordVersion, Value: value, Time: w.now().UTC()}
		w.entries[origin] = r
		changes[0].Value = encode(r)
	}
	if err := w.store.Apply(changes...); err != nil {
		w.log.Warn("what was found out about an MCP server cannot be stored", "what", w.bucket, "error", err)
	}
}

// ServerChange is a change made by another replica, for closing or reopening connections.
type ServerChange struct {
	Before *Server // nil if the server is new
	Now    *Server // nil if the server was removed
	User   string  // who activated or deactivated the server
}

// ApplyRemote applies the changes of other replicas, and returns the servers that changed.
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

// ApplyRemote applies the changes of other replicas.
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
