package schema

import (
	"container/heap"
	"encoding/json"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// counter adds up how often subschemas are applied. It assumes the worst where it depends on values: that alternatives are
// all tried, and that conditions hold.
type counter struct {
	plan  *plan
	total float64
}

// count takes how often each node is applied to a value, and goes on to what is in it. It ends early once the total is
// too much.
func (c *counter) count(applied map[*node]float64, v any) {
	inner := c.spread(applied, kindOf(v))
	if c.total > maxChecks {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			c.inner(inner, value, func(s *jsonschema.Schema, apply func(*jsonschema.Schema)) { c.property(s, name, apply) })
		}
	case []any:
		for i, value := range v {
			c.inner(inner, value, func(s *jsonschema.Schema, apply func(*jsonschema.Schema)) { itemSchemas(s, i, apply) })
		}
	}
}

// spread follows what is applied to the same value, in the order of ranks, so that each node is complete before what it
// applies. It returns the nodes that look into the value.
func (c *counter) spread(applied map[*node]float64, kind string) map[*node]float64 {
	queue := make(byRank, 0, len(applied))
	for n := range applied {
		queue = append(queue, n)
	}
	heap.Init(&queue)
	for len(queue) > 0 {
		n := heap.Pop(&queue).(*node)
		times := applied[n]
		c.total += times * weight(n.schema)
		if c.total > maxChecks {
			return nil
		}
		if !n.admits(kind) {
			delete(applied, n) // it ends with its type
			continue
		}
		for _, m := range n.same {
			if _, known := applied[m]; !known {
				heap.Push(&queue, m)
			}
			applied[m] += times
		}
	}
	return applied
}

func (n *node) admits(kind string) bool {
	return n.types == nil || n.types[kind] || kind == "number" && n.types["integer"]
}

// inner counts for one value within another.
func (c *counter) inner(outer map[*node]float64, value any, find func(*jsonschema.Schema, func(*jsonschema.Schema))) {
	if c.total > maxChecks {
		return
	}
	applied := map[*node]float64{}
	for n, times := range outer {
		find(n.schema, func(s *jsonschema.Schema) { applied[c.plan.nodes[s]] += times })
	}
	if len(applied) > 0 {
		c.count(applied, value)
	}
}

func (c *counter) property(s *jsonschema.Schema, name string, apply func(*jsonschema.Schema)) {
	own, named := s.Properties[name]
	if named {
		apply(own)
	}
	for pattern, one := range s.PatternProperties {
		c.total++
		if pattern.MatchString(name) {
			apply(one)
			named = true
		}
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !named {
		apply(additional)
	}
	if s.UnevaluatedProperties != nil {
		apply(s.UnevaluatedProperties)
	}
	if s.PropertyNames != nil {
		c.count(map[*node]float64{c.plan.nodes[s.PropertyNames]: 1}, name)
	}
}

func itemSchemas(s *jsonschema.Schema, i int, apply func(*jsonschema.Schema)) {
	rest := s.Items2020
	switch {
	case i < len(s.PrefixItems):
		rest = s.PrefixItems[i]
	default:
		switch items := s.Items.(type) {
		case *jsonschema.Schema:
			rest = items
		case []*jsonschema.Schema:
			if i < len(items) {
				rest = items[i]
			} else if additional, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
				rest = additional
			}
		}
	}
	for _, one := range []*jsonschema.Schema{rest, s.Contains, s.UnevaluatedItems} {
		if one != nil {
			apply(one)
		}
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	}
	return "null"
}

// byRank is a heap of nodes.
type byRank []*node

func (q byRank) Len() int           { return len(q) }
func (q byRank) Less(i, j int) bool { return q[i].rank < q[j].rank }
func (q byRank) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byRank) Push(n any)        { *q = append(*q, n.(*node)) }
func (q *byRank) Pop() any {
	last := len(*q) - 1
	n := (*q)[last]
	*q = (*q)[:last]
	return n
}
