package catalog

import (
	"context"
	"sync"

	"google.golang.org/protobuf/proto"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/alias"

	"pawl.dev/planner-svc/internal/rank"
)

// Catalog is an immutable list of tools, with what planners derive from it: each thing is made once, when it is first needed. It may be used by
// several goroutines.
type Catalog struct {
	Tools []*commonv1.Tool

	byID, byAlias func() map[string]*commonv1.Tool
	index         func() *rank.Index
}

// New makes a catalog. The tools must not be changed afterwards.
func New(tools []*commonv1.Tool) *Catalog {
	by := func(key func(string) string) func() map[string]*commonv1.Tool {
		return sync.OnceValue(func() map[string]*commonv1.Tool {
			m := make(map[string]*commonv1.Tool, len(tools))
			for _, t := range tools {
				m[key(t.GetId())] = t
			}
			return m
		})
	}
	return &Catalog{
		Tools: tools, index: sync.OnceValue(func() *rank.Index { return rank.New(tools) }),
		byID: by(func(id string) string { return id }), byAlias: by(alias.Of),
	}
}

// Size returns about how many bytes the catalog takes, without its index.
func (c *Catalog) Size() int {
	const overhead = 512 // of a tool
	n := overhead
	for _, t := range c.Tools {
		n += overhead + proto.Size(t)
	}
	return n
}

// Set holds the tools of a task: those of its catalogs, in this order.
type Set []*Catalog

type setKey struct{}

// NewContext returns a context with the tools of the request's task.
func NewContext(ctx context.Context, s Set) context.Context {
	return context.WithValue(ctx, setKey{}, s)
}

// FromContext returns the tools of the request's task; those of NewContext, or else a new catalog of tools.
func FromContext(ctx context.Context, tools []*commonv1.Tool) Set {
	if s, ok := ctx.Value(setKey{}).(Set); ok {
		return s
	}
	return Set{New(tools)}
}

// Tools returns all tools; the caller must not change the list.
func (s Set) Tools() []*commonv1.Tool {
	if len(s) == 1 {
		return s[0].Tools
	}
	var all []*commonv1.Tool
	for _, c := range s {
		all = append(all, c.Tools...)
	}
	return all
}

// Find returns the tool of that id, nil if there is none.
func (s Set) Find(id string) *commonv1.Tool {
	for _, c := range s {
		if t := c.byID()[id]; t != nil {
			return t
		}
	}
	return nil
}

// Lookup returns the tool of that alias or id, nil if there is none.
func (s Set) Lookup(name string) *commonv1.Tool {
	for _, c := range s {
		if t := c.byAlias()[name]; t != nil {
			return t
		}
	}
	return s.Find(name)
}

// Search returns the tools that match a text, best first.
func (s Set) Search(text string) []rank.Hit {
	indexes := make([]*rank.Index, len(s))
	for i, c := range s {
		indexes[i] = c.index()
	}
	return rank.Search(indexes, text)
}
