package rank

import (
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// maxCached bounds the indexes of a Cache: a task asks about the same list of tools at every step.
const maxCached = 16

// Cache keeps the indexes of the last lists of tools. Its zero value is ready, and it is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	indexes []*Index // guarded by mu; the newest first
}

// Index returns the index of a list of tools. Its hits may be equal tools of an earlier list.
func (c *Cache) Index(tools []*commonv1.Tool) *Index {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.indexes {
		if slices.EqualFunc(x.tools, tools, equal) {
			return x
		}
	}
	x := New(tools)
	c.indexes = append([]*Index{x}, c.indexes[:min(len(c.indexes), maxCached-1)]...)
	return x
}

// equal compares what an index reads of a tool.
func equal(a, b *commonv1.Tool) bool {
	return a == b || a.GetId() == b.GetId() && a.GetName() == b.GetName() && a.GetTitle() == b.GetTitle() && a.GetDescription() == b.GetDescription() &&
		a.GetInputSchemaJson() == b.GetInputSchemaJson()
}
