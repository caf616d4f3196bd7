package schema

import (
	"container/list"
	"sync"
)

// cache keeps the schemas used last, bounded by their number and by the length of their texts.
type cache struct {
	maxEntries int
	maxBytes   int

	mu      sync.Mutex
	order   *list.List // of *Schema, the one used last in front
	entries map[string]*list.Element
	bytes   int
}

func newCache(maxEntries, maxBytes int) *cache {
	return &cache{maxEntries: maxEntries, maxBytes: maxBytes, order: list.New(), entries: map[string]*list.Element{}}
}

func (c *cache) get(raw string) (*Schema, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.entries[raw]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(el)
	return el.Value.(*Schema), true
}

func (c *cache) put(raw string, s *Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, there := c.entries[raw]; there || len(raw) > c.maxBytes {
		return
	}
	c.entries[raw] = c.order.PushFront(s)
	c.bytes += len(raw)
	for len(c.entries) > c.maxEntries || c.bytes > c.maxBytes {
		oldest := c.order.Back()
		s := c.order.Remove(oldest).(*Schema)
		delete(c.entries, s.raw)
		c.bytes -= len(s.raw)
	}
}
