// Package recent remembers what other services answered lately, so that not every task asks again. It must not know what the answers mean.
package recent

import (
	"maps"
	"sync"
	"time"
)

// Cache remembers values by key. It forgets them on restart, and must not be needed for correctness.
type Cache[V any] struct {
	// Age is how long a value is remembered; 0: until it is deleted or there are too many.
	Age time.Duration
	// Limit bounds the number of values.
	Limit int

	mu     sync.Mutex
	values map[string]timed[V] // guarded by mu
}

type timed[V any] struct {
	value V
	time  time.Time
}

func (c *Cache[V]) isOld(t timed[V]) bool { return c.Age > 0 && time.Since(t.time) >= c.Age }

// Get returns a value that is younger than Age.
func (c *Cache[V]) Get(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.values[key]
	if !ok || c.isOld(t) {
		return value, false
	}
	return t.value, true
}

// Put stores a value. At the limit it forgets old values, and all values if none is old.
func (c *Cache[V]) Put(key string, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.values) >= c.Limit {
		maps.DeleteFunc(c.values, func(_ string, t timed[V]) bool { return c.isOld(t) })
	}
	if c.values == nil || len(c.values) >= c.Limit {
		c.values = make(map[string]timed[V])
	}
	c.values[key] = timed[V]{value, time.Now()}
}

// Delete forgets a value.
func (c *Cache[V]) Delete(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.values, key)
}
