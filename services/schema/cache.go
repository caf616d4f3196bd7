package schema

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

// cache keeps the schemas used last, bounded by their number and by the length of their texts.
type cache struct {
	maxEntries int
	maxBytes   int

	mu      sync.Mutex
	order   *list.List // of *entry, the one used last in front
	entries map[[sha256.Size]byte]*list.Element
	bytes   int
}

type entry struct {
	hash   [sha256.Size]byte
	schema *Schema
}

func newCache(maxEntries, maxBytes int) *cache {
	return &cache{maxEntries: maxEntries, maxBytes: maxBytes, order: list.New(), entries: map[[sha256.Size]byte]*list.Element{}}
}

func (c *cache) get(raw string) (*Schema, bool) {
	hash := sha256.Sum256([]byte(raw))
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[hash]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*entry).schema, true
}

func (c *cache) put(raw string, s *Schema) {
	hash := sha256.Sum256([]byte(raw))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.entries[hash]; there || len(raw) > c.maxBytes {
		return
	}
	c.entries[hash] = c.order.PushFront(&entry{hash: hash, schema: s})
	c.bytes += len(raw)
	for len(c.entries) > c.maxEntries || c.bytes > c.maxBytes {
		oldest := c.order.Back()
		e := c.order.Remove(oldest).(*entry)
		delete(c.entries, e.hash)
		c.bytes -= len(e.schema.raw)
	}
}
