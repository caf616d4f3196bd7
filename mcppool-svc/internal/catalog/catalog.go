package catalog

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// Catalog is all tools of a server at one time. It is immutable.
type Catalog struct {
	Tools []*Tool // by name
	Time  time.Time
}

// Find returns a tool by its exact name; nil where there is none.
func (c *Catalog) Find(name string) *Tool {
	i, ok := slices.BinarySearchFunc(c.Tools, name, func(t *Tool, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return nil
	}
	return c.Tools[i]
}

// After returns the tools that come after a name, in order.
func (c *Catalog) After(name string) []*Tool {
	i, ok := slices.BinarySearchFunc(c.Tools, name, func(t *Tool, name string) int { return cmp.Compare(t.Name, name) })
	if ok {
		i++
	}
	return c.Tools[i:]
}

// read makes a catalog of raw definitions. Two tools of one name are refused: which one a call would reach, and which one
// was shown for approval, would be the server's secret.
func read(raw []json.RawMessage, now time.Time) (*Catalog, error) {
	c := &Catalog{Tools: make([]*Tool, 0, len(raw)), Time: now}
	for _, r := range raw {
		t, err := parse(r)
		if err != nil {
			return nil, protocolError("the server's tool list cannot be used: %w", err)
		}
		c.Tools = append(c.Tools, t)
	}
	slices.SortFunc(c.Tools, func(a, b *Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(c.Tools); i++ {
		if c.Tools[i].Name == c.Tools[i-1].Name {
			return nil, protocolError("the server's tool list cannot be used: two tools have the name %q", c.Tools[i].Name)
		}
	}
	return c, nil
}
