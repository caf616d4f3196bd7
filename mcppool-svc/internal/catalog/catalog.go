package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Catalog is all tools of a server at one time. It is immutable.
type Catalog struct {
	Tools []*Tool // by name
	// Skipped says which tools were left out, and why.
	Skipped []string
	Time    time.Time
	// Digest is the same for the same definitions.
	Digest [sha256.Size]byte
}

// Find returns a tool by its exact name, or nil.
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

// Read returns the catalog of raw definitions. Two tools of one name are refused: only the server would know which one a call reaches.
func Read(raw []json.RawMessage, now time.Time) (*Catalog, error) { return read(raw, now, nil) }

func read(raw []json.RawMessage, now time.Time, known *Interner) (*Catalog, error) {
	c := &Catalog{Tools: make([]*Tool, 0, len(raw)), Time: now}
	for _, r := range raw {
		t, err := known.read(r)
		if skipped := (*skippedError)(nil); errors.As(err, &skipped) {
			c.Skipped = append(c.Skipped, skipped.Error())
			continue
		}
		if err != nil {
			return nil, protocolError("the server's tool list cannot be used: %w", err)
		}
		c.Tools = append(c.Tools, t)
	}
	h := sha256.New()
	slices.SortFunc(c.Tools, func(a, b *Tool) int { return cmp.Compare(a.Name, b.Name) })
	for i := range c.Tools {
		h.Write([]byte(c.Tools[i].Hash))
		if i > 0 && c.Tools[i].Name == c.Tools[i-1].Name {
			return nil, protocolError("the server's tool list cannot be used: two tools have the name %q", c.Tools[i].Name)
		}
	}
	h.Sum(c.Digest[:0])
	return c, nil
}
