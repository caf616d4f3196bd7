package catalog

import (
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Catalog is the tools of one task, in the task's order.
type Catalog struct {
	Tools []*Tool
	byID  map[string]*Tool
}

// New looks at a task's tools.
func New(tools []*commonv1.Tool) *Catalog {
	c := &Catalog{byID: make(map[string]*Tool, len(tools))}
	for _, t := range tools {
		tool := NewTool(t)
		c.Tools = append(c.Tools, tool)
		c.byID[t.GetId()] = tool
	}
	return c
}

// Tool returns the tool of that id, nil if there is none.
func (c *Catalog) Tool(id string) *Tool { return c.byID[id] }

// Distinct tells whether a token is a tool's id, or a tool's name that is no ordinary word.
func (c *Catalog) Distinct(token string) bool {
	return len(c.Named(token)) > 0 && strings.ContainsAny(token, "_-/.:") || c.camelName(token)
}

func (c *Catalog) camelName(token string) bool {
	return len(NameParts(token)) > 1 && slices.ContainsFunc(c.Tools, func(t *Tool) bool { return t.GetName() == token })
}

// Verb tells whether a tool's name begins with that word.
func (c *Catalog) Verb(word string) bool {
	return len(word) > 2 && slices.ContainsFunc(c.Tools, func(t *Tool) bool { return len(t.nameWords) > 0 && t.nameWords[0] == word })
}

// Named returns the tools of that id or name, in any case.
func (c *Catalog) Named(name string) []*Tool {
	var found []*Tool
	for _, t := range c.Tools {
		if strings.EqualFold(t.GetId(), name) {
			return []*Tool{t}
		}
		if strings.EqualFold(t.GetName(), name) {
			found = append(found, t)
		}
	}
	return found
}

// NameWords returns the words of the tool's name in lower case.
func (t *Tool) NameWords() []string { return t.nameWords }
