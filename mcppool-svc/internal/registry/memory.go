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
	bucketTransportHints     = "ways"   // Server.Origin → memoryRecord: the transport or revision that worked, if it is not the first to try
	bucketAnonymousElicitors = "askers" // Server.Origin → memoryRecord: the server asks for input without naming the call
	// maxRemembered bounds the entries of a Memory; the oldest are dropped.
	maxRemembered = 10_000
	// transportHintAge is how long an entry of bucketTransportHints is valid. Then the newest transport and revision are tried again, because
	// the server may have been upgraded.
	transportHintAge = 24 * time.Hour
)

// Memory remembers properties of servers that connections revealed. It is safe for concurrent use.
type Memory struct {
	bucket string
	age    time.Duration // how long an entry is valid; 0: forever
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

// NewMemories returns the Memory of the transport and revision that servers accepted, and that of the servers that ask for input without naming
// the call.
func NewMemories(st store.Store, now func() time.Time, log *slog.Logger) (transportHints, anonymousElicitors *Memory, err error) {
	if transportHints, err = newMemory(bucketTransportHints, transportHintAge, st, now, log); err != nil {
		return nil, nil, err
	}
	anonymousElicitors, err = newMemory(bucketAnonymousElicitors, 0, st, now, log)
	return transportHints, anonymousElicitors, err
}

func newMemory(bucket string, age time.Duration, st store.Store, now func() time.Time, log *slog.Logger) (*Memory, error) {
	m := &Memory{bucket: bucket, age: age, store: st, log: log, now: now, entries: make(map[string]memoryRecord)}
	if err := st.Load(bucket, m.set); err != nil {
		return nil, fmt.Errorf("reading the remembered properties of MCP servers: %w", err)
	}
	return m, nil
}

// set replaces an entry with a stored value, or deletes it if value is nil. Called with mu held, or before the Memory is shared.
func (m *Memory) set(origin string, value []byte) error {
	if value == nil {
		delete(m.entries, origin)
		return nil
	}
	var r memoryRecord
	if err := store.Decode(value, recordVersion, &r); err != nil {
		return fmt.Errorf("entry %q of %s: %w", origin, m.bucket, err)
	}
	m.entries[origin] = r
	return nil
}

// Recall returns the value for a server, or "" if there is none or it is too old.
func (m *Memory) Recall(origin string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.entries[origin]
	if age := m.now().Sub(r.Time); m.age > 0 && (age >= m.age || age < 0) {
		return ""
	}
	return r.Value
}

// Remember sets the value for a server; an empty value deletes it.
func (m *Memory) Remember(origin, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changes := []store.Change{{Bucket: m.bucket, Key: origin}}
	if value == "" {
		delete(m.entries, origin)
	} else {
		if _, known := m.entries[origin]; !known && len(m.entries) >= maxRemembered {
			oldest := store.Oldest(m.entries, func(r memoryRecord) time.Time { return r.Time })
			delete(m.entries, oldest)
			changes = append(changes, store.Change{Bucket: m.bucket, Key: oldest})
		}
		r := memoryRecord{Version: recordVersion, Value: value, Time: m.now().UTC()}
		m.entries[origin] = r
		changes[0].Value = store.Encode(r)
	}
	if err := m.store.Apply(changes...); err != nil {
		m.log.Warn("a property of an MCP server cannot be stored", "bucket", m.bucket, "error", err)
	}
}

// ServerChange is a change that another replica made. Connections have to be retired accordingly.
type ServerChange struct {
	Before *Server // nil if the server is new
	Now    *Server // nil if the server was removed
	User   string  // the user who activated or deactivated the server; empty: the server itself changed
}

// ApplyRemote applies the changes of other replicas and returns the changes of servers.
func (r *Registry) ApplyRemote(places []replica.Place) []ServerChange {
	var changed []ServerChange
	owners := make(map[string]bool)
	r.mu.Lock()
	for _, p := range places {
		switch p.Bucket {
		case BucketServers:
			before := r.servers[p.Key]
			r.reload(p.Bucket, p.Key)
			if current := r.servers[p.Key]; current != before {
				changed = append(changed, ServerChange{Before: before, Now: current})
			}
			owners[keyUser(p.Key)] = true
		case bucketActivations:
			r.reload(p.Bucket, p.Key)
			user := keyUser(p.Key)
			if s := r.servers[p.Key[min(len(user)+1, len(p.Key)):]]; s != nil {
				changed = append(changed, ServerChange{Before: s, Now: s, User: user})
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
	return changed
}

// reload replaces an entry with the stored one, or deletes it if none is stored. An unreadable value leaves the entry unchanged. Called with mu held.
func (r *Registry) reload(bucket, key string) {
	value, err := r.store.Get(bucket, key)
	if err == nil && bucket == BucketServers && r.servers[key] != nil && r.servers[key].FromConfig {
		return // the configuration file has priority
	}
	switch {
	case err != nil:
	case value != nil:
		err = r.read(bucket, key, value)
	case bucket == BucketServers:
		delete(r.servers, key)
	case bucket == bucketActivations:
		delete(r.active, key)
	}
	if err != nil {
		r.log.Error("a stored entry about an MCP server cannot be read", "error", err)
	}
}

// Readable reports whether this program can read a stored value.
func Readable(bucket, key string, value []byte) bool {
	if bucket == bucketTransportHints || bucket == bucketAnonymousElicitors {
		return (&Memory{entries: make(map[string]memoryRecord)}).set(key, value) == nil
	}
	r := &Registry{servers: make(map[string]*Server), active: make(map[string]bool)}
	err := r.read(bucket, key, value)
	s := r.servers[key]
	return err == nil && (s == nil || s.Key() == key)
}

// LowPriorityBuckets returns the buckets whose changes other replicas may receive a little later.
func LowPriorityBuckets() []string { return []string{bucketTransportHints, bucketAnonymousElicitors} }

// ApplyRemote applies the changes of other replicas.
func (m *Memory) ApplyRemote(places []replica.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range places {
		if p.Bucket != m.bucket {
			continue
		}
		value, err := m.store.Get(p.Bucket, p.Key)
		if err == nil {
			err = m.set(p.Key, value)
		}
		if err != nil {
			m.log.Warn("a property of an MCP server from another replica cannot be read", "bucket", m.bucket, "error", err)
		}
	}
}
