package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A few lines of nested references make a validator work for years on a small document, and schemas come from servers that are not trusted.
// So the number of times that subschemas can be applied is bounded before validation.

const (
	// maxChecks bounds one validation: so many checks take about a second. Each can fail, so it also bounds the memory for the problems.
	maxChecks = 1_000_000
	// maxEdges bounds a schema: the sum of the lengths of part.same over its parts.
	maxEdges = 200_000
	// maxPaths is the number of paths to subschemas up to which short documents are validated without counting the work first.
	maxPaths = 10_000
)

// graph holds the subschemas of a compiled schema, used to bound work and to accept common documents quickly.
type graph struct {
	root  *part
	parts map[*jsonschema.Schema]*part
}

// part is one subschema.
type part struct {
	schema      *jsonschema.Schema
	kinds       []string // types of values that it admits; none: all
	plain       bool     // fits knows all of its keywords
	weight      float64  // cost of applying it once, without its subschemas, in checks
	same, inner []*part  // applied to the same value, and to the values within it
	rank        int      // greater than the rank of every part that applies it to the same value
	visiting    bool
	paths       float64 // paths from here to subschemas, by weight; 0: not yet counted
}

// admits reports whether a value of that JSON type can fit.
func (p *part) admits(kind string) bool {
	return len(p.kinds) == 0 || slices.Contains(p.kinds, kind) || kind == "number" && slices.Contains(p.kinds, "integer")
}

var (
	errEndless  = errors.New("it refers to itself without going into a value, so no document can be checked")
	errTooLarge = errors.New("it has too many parts that refer to each other")
)

func newGraph(root *jsonschema.Schema) (*graph, error) {
	g := &graph{parts: map[*jsonschema.Schema]*part{}}
	g.root = g.add(root)
	if err := g.addDynamic(); err != nil {
		return nil, err
	}
	next := len(g.parts)
	for _, part := range g.parts {
		if part.setRanks(&next) {
			return nil, errEndless
		}
	}
	g.root.countPaths()
	return g, nil
}

// add returns the part of a schema, after adding all parts that can be reached from it.
func (g *graph) add(s *jsonschema.Schema) *part {
	if known := g.parts[s]; known != nil {
		return known
	}
	added := &part{schema: s, plain: isPlain(s), weight: weight(s)}
	if s.Types != nil {
		added.kinds = s.Types.ToStrings()
	}
	g.parts[s] = added
	for _, sub := range sameValue(s) {
		added.same = append(added.same, g.add(sub))
	}
	for _, sub := range innerValues(s) {
		added.inner = append(added.inner, g.add(sub))
	}
	return added
}

// weight returns the cost of a schema's own keywords in checks. Comparing a value or a name costs a fraction of a check.
func weight(s *jsonschema.Schema) float64 {
	const cheaper = 16
	compared := len(s.Required)
	if s.Enum != nil {
		compared += len(s.Enum.Values)
	}
	return 1 + float64(compared)/cheaper
}

// addDynamic adds the targets that a dynamic reference can have besides the schema that it names.
func (g *graph) addDynamic() error {
	var anchored []*part
	for s, part := range g.parts {
		if s.RecursiveAnchor || s.DynamicAnchor != "" {
			anchored = append(anchored, part)
		}
	}
	edges := 0
	for s, from := range g.parts {
		for _, to := range anchored {
			if s.RecursiveRef == nil && s.DynamicRef == nil {
				break
			}
			if leadsTo(s, to.schema) {
				from.same = append(from.same, to)
			}
		}
		if edges += len(from.same); edges > maxEdges {
			return errTooLarge
		}
	}
	return nil
}

// leadsTo reports whether the dynamic reference of s may lead to the schema to, although it names another schema.
func leadsTo(s, to *jsonschema.Schema) bool {
	return s.RecursiveRef != nil && s.RecursiveRef != to && to.RecursiveAnchor ||
		s.DynamicRef != nil && s.DynamicRef.Ref != to && s.DynamicRef.Anchor != "" && s.DynamicRef.Anchor == to.DynamicAnchor
}

// sameValue lists the subschemas that a schema applies to its own value.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf,
		slices.Collect(maps.Values(s.DependentSchemas)))
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, dependency := range s.Dependencies {
		all = append(all, schemasIn(dependency)...)
	}
	return slices.DeleteFunc(all, isNil)
}

// innerValues lists the subschemas that a schema applies to the values within its value.
func innerValues(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat([]*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems},
		s.PrefixItems, slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		schemasIn(s.AdditionalProperties), schemasIn(s.Items), schemasIn(s.AdditionalItems))
	return slices.DeleteFunc(all, isNil)
}

func isNil(s *jsonschema.Schema) bool { return s == nil }

// schemasIn returns the schemas of a keyword that may have one, several, or none.
func schemasIn(keyword any) []*jsonschema.Schema {
	switch v := keyword.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{v}
	case []*jsonschema.Schema:
		return v
	}
	return nil
}

// setRanks ranks a part and the parts that it applies to the same value, from next downwards. It stops and returns true if one of them applies
// itself to the same value.
func (p *part) setRanks(next *int) (endless bool) {
	if p.visiting || p.rank != 0 {
		return p.visiting
	}
	p.visiting = true
	for _, sub := range p.same {
		if sub.setRanks(next) {
			return true
		}
	}
	p.visiting = false
	p.rank = *next
	*next--
	return false
}

// countPaths returns the number of paths from a part to subschemas, by weight. It bounds the checks per byte of a document. For a recursive
// part it is more than maxPaths.
func (p *part) countPaths() float64 {
	if p.visiting {
		return maxPaths + 1
	}
	if p.paths == 0 {
		p.visiting = true
		paths := p.weight
		for _, sub := range slices.Concat(p.same, p.inner) {
			paths += sub.countPaths()
		}
		p.visiting, p.paths = false, paths
	}
	return p.paths
}

// isCheap reports whether the checks of every document of that length are within maxChecks.
func (g *graph) isCheap(bytes int) bool {
	return g.root.paths <= maxPaths && g.root.paths*float64(bytes) <= maxChecks
}

// counter adds up how often subschemas are applied. It assumes the worst if the number depends on values: that alternatives are
// all tried, and that conditions hold. Equal applications are counted together, so counting is proportional to the document.
type counter struct {
	graph *graph
	total float64
}

// check refuses a document that could take too much work. The error is an *Invalid.
func (g *graph) check(doc any, bytes int) error {
	if g.isCheap(bytes) {
		return nil
	}
	c := counter{graph: g}
	c.count(map[*part]float64{g.root: 1}, doc)
	if c.total <= maxChecks {
		return nil
	}
	return &Invalid{Problems: []Problem{{Message: fmt.Sprintf(
		"validating it by this schema could take more than %d checks; make it smaller or less nested", maxChecks)}}}
}

// count adds the checks of a value and of the values within it. applied holds how often each part is applied to the value. count stops
// early once the total is too large.
func (c *counter) count(applied map[*part]float64, v any) {
	c.spread(applied, kindOf(v))
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			c.countInner(applied, name, func(s *jsonschema.Schema) []*jsonschema.Schema { return []*jsonschema.Schema{s.PropertyNames} })
			c.countInner(applied, value, func(s *jsonschema.Schema) []*jsonschema.Schema { return c.property(s, name) })
		}
	case []any:
		for i, value := range v {
			c.countInner(applied, value, func(s *jsonschema.Schema) []*jsonschema.Schema { return itemSchemas(s, i) })
		}
	}
}

// spread adds to applied the parts that its parts apply to the same value, and removes the parts that do not admit the value's type. It goes by
// rank, so that the count of a part is complete before it is passed on.
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

// countInner counts the checks of a value within another; find returns the subschemas that an outer schema applies to the inner value.
func (c *counter) countInner(outer map[*part]float64, value any, find func(*jsonschema.Schema) []*jsonschema.Schema) {
	applied := map[*part]float64{}
	for p, times := range outer {
		for _, s := range find(p.schema) {
			if s != nil {
				applied[c.graph.parts[s]] += times
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
	for pattern, sub := range s.PatternProperties {
		c.total++
		if pattern.MatchString(name) {
			found, named = append(found, sub), true
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
