package catalog

import (
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Cache keeps what was found out about tools, by their names and schemas: tasks ask about the same tools again and again. It is
// bounded by being emptied when it is full. It may be used by several goroutines.
type Cache struct {
	mu    sync.Mutex
	known map[definition]*Tool // without the tool itself, of which only this much was read
	bytes int
}

// definition is what NewTool reads of a tool.
type definition struct{ name, schema string }

const (
	mostCached      = 512
	mostCachedBytes = 4 << 20 // of schemas
)

// NewCache makes an empty cache.
func NewCache() *Cache { return &Cache{known: map[definition]*Tool{}} }

// Tool is NewTool with what is known already.
func (c *Cache) Tool(t *commonv1.Tool) *Tool {
	d := definition{name: t.GetName(), schema: t.GetInputSchemaJson()}
	c.mu.Lock()
	known := c.known[d]
	c.mu.Unlock()
	if known == nil {
		known = NewTool(t)
		c.put(d, known)
	}
	return &Tool{Tool: t, Props: known.Props, Schema: known.Schema}
}

func (c *Cache) put(d definition, t *Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[d] != nil || len(d.schema) > mostCachedBytes {
		return
	}
	if len(c.known) >= mostCached || c.bytes+len(d.schema) > mostCachedBytes {
		clear(c.known)
		c.bytes = 0
	}
	c.known[d] = &Tool{Props: t.Props, Schema: t.Schema}
	c.bytes += len(d.schema)
}
