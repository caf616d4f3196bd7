package store

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// Change is one write; a nil value deletes.
type Change struct {
	Bucket, Key string
	Value       []byte
}

// Store is safe for concurrent use.
type Store interface {
	// Load visits the values of a bucket, by key.
	Load(bucket string, visit func(key string, value []byte) error) error
	// Get returns a value, or nil.
	Get(bucket, key string) ([]byte, error)
	// Apply makes all changes or none.
	Apply(changes ...Change) error
	// Close may be called again.
	Close() error
}

// Open opens the store in a folder, which is made where needed; of an empty name, one that forgets all when closed.
func Open(dir string, buckets ...string) (Store, error) {
	if dir == "" {
		return &memory{values: make(map[string]map[string][]byte)}, nil
	}
	return openFile(dir, buckets)
}

// memory is a Store without a file.
type memory struct {
	mu     sync.RWMutex
	values map[string]map[string][]byte // guarded by mu; by bucket and key
}

// Load implements Store.
func (m *memory) Load(bucket string, visit func(key string, value []byte) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for key, value := range m.values[bucket] {
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Get implements Store.
func (m *memory) Get(bucket, key string) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.values[bucket][key], nil
}

// Apply implements Store.
func (m *memory) Apply(changes ...Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range changes {
		if c.Value == nil {
			delete(m.values[c.Bucket], c.Key)
			continue
		}
		if m.values[c.Bucket] == nil {
			m.values[c.Bucket] = make(map[string][]byte)
		}
		m.values[c.Bucket][c.Key] = c.Value
	}
	return nil
}

// Close implements Store.
func (*memory) Close() error { return nil }

// Oldest returns the key of the value with the earliest time: the one to drop if there are too many.
func Oldest[K comparable, V any](values map[K]V, at func(V) time.Time) K {
	return slices.MinFunc(slices.Collect(maps.Keys(values)), func(a, b K) int { return at(values[a]).Compare(at(values[b])) })
}
