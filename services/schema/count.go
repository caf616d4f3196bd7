package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// counter adds up how often subschemas are applied. It assumes the worst where it depends on values: that alternatives are
// all tried, and that conditions hold. Equal applications are counted together, so counting is proportional to the document.
type counter struct {
	plan  *plan
	total float64
}

// check refuses a document that would take too much work. It is an *Invalid.
func (p *plan) check(doc any, bytes int) error {
	if p.cheap(bytes) {
		return nil
	}
	c := counter{plan: p}
	c.count(map[*part]float64{p.root: 1}, doc)
	if c.total <= maxChecks {
		return nil
	}
	return &Invalid{Problems: []Problem{{Message: fmt.Sprintf(
		"it would take more than %d checks by this schema; make it smaller or less nested", maxChecks)}}}
}

// count takes how often each part is applied to a value, and goes on to what is in it. It ends early once the total is
// too much.
func (c *counter) count(applied map[*part]float64, v any) {
	c.spread(applied, kindOf(v))
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			c.inner(applied, name, func(s *jsonschema.Schema) []*jsonschema.Schema { return []*jsonschema.Schema{s.PropertyNames} })
			c.inner(applied, value, func(s *jsonschema.Schema) []*jsonschema.Schema { return c.property(s, name) })
		}
	case []any:
		for i, value := range v {
			c.inner(applied, value, func(s *jsonschema.Schema) []*jsonschema.Schema { return itemSchemas(s, i) })
		}
	}
}

// spread adds what the parts apply to the same value, and removes those that end with the value's type. By rank, each part is complete
// before what it applies.
func (c *counter) spread(applied map[*part]float64, kind string) {
	order := slices.Collect(maps.Keys(applied))
	for i := 0; i < len(order); i++ {
		if !order[i].admits(kind) {
			continue
		}
		for _, sub := range order[i].same {
			if _, known := applied[sub]; !known {
				applied[sub] = 0
				order = append(order, sub)
			}
		}
	}
	slices.SortFunc(order, func(a, b *part) int { return cmp.Compare(a.rank, b.rank) })
	for _, p := range order {
		times := applied[p]
		c.total += times * p.weight
		if !p.admits(kind) {
			delete(applied, p)
			continue
		}
		for _, sub := range p.same {
			applied[sub] += times
		}
	}
}

// inner counts for one value within another, to which find gives the subschemas.
func (c *counter) inner(outer map[*part]float64, value any, find func(*jsonschema.Schema) []*jsonschema.Schema) {
	applied := map[*part]float64{}
	for p, times := range outer {
		for _, s := range find(p.schema) {
			if s != nil {
				applied[c.plan.parts[s]] += times
			}
		}
	}
	if len(applied) > 0 && c.total <= maxChecks {
		c.count(applied, value)
	}
}

func (c *counter) property(s *jsonschema.Schema, name string) []*jsonschema.Schema {
	found := []*jsonschema.Schema{s.UnevaluatedProperties}
	own, named := s.Properties[name]
	found = append(found, own)
	for pattern, one := range s.PatternProperties {
		c.total++
		if pattern.MatchString(name) {
			found, named = append(found, one), true
		}
	}
	if !named {
		found = append(found, schemasIn(s.AdditionalProperties)...)
	}
	return found
}

func itemSchemas(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	tuple, rest := s.PrefixItems, s.Items2020
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		rest = items
	case []*jsonschema.Schema:
		tuple = items
		rest, _ = s.AdditionalItems.(*jsonschema.Schema)
	}
	if i < len(tuple) {
		rest = tuple[i]
	}
	return []*jsonschema.Schema{rest, s.Contains, s.UnevaluatedItems}
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
