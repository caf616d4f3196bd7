package catalog

import (
	"encoding/json"
	"runtime"
	"sync"
	"weak"
)

// Interner shares catalogs of the same list between connections, and tools of the same definition between catalogs. It drops those that are no longer
// used. It is safe for concurrent use.
type Interner struct {
	catalogs shared[Catalog] // by a hash of the list
	tools    shared[Tool]    // by Tool.Hash
}

// NewInterner returns an empty Interner.
func NewInterner() *Interner { return &Interner{} }

// tool returns the tool of a definition with this hash, shared if there already is one.
func (k *Interner) tool(hash string, raw json.RawMessage) (*Tool, error) {
	if t := k.tools.get(hash); t != nil {
		return t, nil
	}
	t, err := parse(hash, raw)
	if err != nil {
		return nil, err
	}
	return k.tools.put(hash, t), nil
}

// shared holds values by key as long as they are used elsewhere. Its zero value is empty.
type shared[T any] struct {
	mu     sync.Mutex
	values map[string]weak.Pointer[T] // guarded by mu
}

// get returns the value of a key, nil if there is none.
func (s *shared[T]) get(key string) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key].Value()
}

// put adds a value, and returns the value of the key: another one if it was added first.
func (s *shared[T]) put(key string, value *T) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.values[key].Value(); first != nil {
		return first
	}
	if s.values == nil {
		s.values = make(map[string]weak.Pointer[T])
	}
	s.values[key] = weak.Make(value)
	runtime.AddCleanup(value, s.forget, key)
	return value
}

// forget removes the entry of a garbage-collected value, unless another value has replaced it.
func (s *shared[T]) forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.values[key]; ok && p.Value() == nil {
		delete(s.values, key)
	}
}
