package schema

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A few lines of schema (two references to the same place, nested) make a validator work for years on a small document,
// and schemas come from strangers. So the work is counted before it is done: how often each subschema would be applied to
// each value. Counting itself is proportional to the document, because equal applications are counted together.

const (
	// maxChecks bounds one validation: about a second, and the memory of as many problems.
	maxChecks = 1_000_000
	// maxEdges bounds a schema: the ways from subschemas to subschemas.
	maxEdges = 200_000
)

// plan is what counting needs to know of a compiled schema.
type plan struct {
	root  *node
	nodes map[*jsonschema.Schema]*node
	// perByte is how many checks a byte of document can cost at most; 0: unbounded, so each document is counted.
	perByte float64
}

// node is one subschema. Its rank is greater than that of everything that applies it to the same value.
type node struct {
	schema *jsonschema.Schema
	types  map[string]bool // nil: all
	same   []*node         // applied to the same value
	rank   int
}

var (
	errEndless  = errors.New("it refers to itself without going into a value, so no document could ever be checked by it")
	errTooLarge = errors.New("it has too many parts that refer to each other")
)

func newPlan(root *jsonschema.Schema) (*plan, error) {
	p := &plan{nodes: map[*jsonschema.Schema]*node{}}
	p.root = p.collect(root)
	if err := p.link(); err != nil {
		return nil, err
	}
	if err := p.rank(); err != nil {
		return nil, err
	}
	p.perByte = p.bound()
	return p, nil
}

// link notes what each node applies to its own value.
func (p *plan) link() error {
	var anchored []*jsonschema.Schema
	for s := range p.nodes {
		if s.RecursiveAnchor || s.DynamicAnchor != "" {
			anchored = append(anchored, s)
		}
	}
	edges := 0
	for _, n := range p.nodes {
		for _, s := range append(sameValue(n.schema), dynamic(n.schema, anchored)...) {
			n.same = append(n.same, p.nodes[s])
		}
		if edges += len(n.same); edges > maxEdges {
			return errTooLarge
		}
	}
	return nil
}

// collect finds all subschemas that can be reached.
func (p *plan) collect(root *jsonschema.Schema) *node {
	todo := []*jsonschema.Schema{root}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if p.nodes[s] != nil {
			continue
		}
		n := &node{schema: s}
		if s.Types != nil && !s.Types.IsEmpty() {
			n.types = map[string]bool{}
			for _, t := range s.Types.ToStrings() {
				n.types[t] = true
			}
		}
		p.nodes[s] = n
		todo = append(append(todo, sameValue(s)...), innerValues(s)...)
	}
	return p.nodes[root]
}

// sameValue lists the subschemas that a schema applies to the value that it is applied to itself.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, one := range []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else} {
		if one != nil {
			all = append(all, one)
		}
	}
	if s.DynamicRef != nil && s.DynamicRef.Ref != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	all = append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, dependency := range s.Dependencies {
		if d, ok := dependency.(*jsonschema.Schema); ok {
			all = append(all, d)
		}
	}
	for _, d := range s.DependentSchemas {
		all = append(all, d)
	}
	return all
}

// dynamic lists the other targets of a dynamic reference, which is resolved by the path of evaluation.
func dynamic(s *jsonschema.Schema, anchored []*jsonschema.Schema) []*jsonschema.Schema {
	if s.RecursiveRef == nil && s.DynamicRef == nil {
		return nil
	}
	var all []*jsonschema.Schema
	for _, other := range anchored {
		if s.RecursiveRef != nil && other != s.RecursiveRef && other.RecursiveAnchor ||
			s.DynamicRef != nil && other != s.DynamicRef.Ref && s.DynamicRef.Anchor != "" && other.DynamicAnchor == s.DynamicRef.Anchor {
			all = append(all, other)
		}
	}
	return all
}

// innerValues lists the subschemas that a schema applies to what is in its value.
func innerValues(s *jsonschema.Schema) []*jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, one := range []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems} {
		if one != nil {
			all = append(all, one)
		}
	}
	for _, one := range s.Properties {
		all = append(all, one)
	}
	for _, one := range s.PatternProperties {
		all = append(all, one)
	}
	for _, maybe := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch v := maybe.(type) {
		case *jsonschema.Schema:
			all = append(all, v)
		case []*jsonschema.Schema:
			all = append(all, v...)
		}
	}
	return append(all, s.PrefixItems...)
}

// rank orders the nodes so that those applied to the same value come after what applies them. A cycle among those would
// never end.
func (p *plan) rank() error {
	const (
		inProgress = -1
		unseen     = 0
	)
	next := len(p.nodes)
	var visit func(n *node) error
	visit = func(n *node) error {
		switch {
		case n.rank == inProgress:
			return errEndless
		case n.rank != unseen:
			return nil
		}
		n.rank = inProgress
		for _, m := range n.same {
			if err := visit(m); err != nil {
				return err
			}
		}
		n.rank = next
		next--
		return nil
	}
	for _, n := range p.nodes {
		if err := visit(n); err != nil {
			return err
		}
	}
	return nil
}

// bound returns the number of ways from the root to subschemas, which no value can exceed in checks; 0 where the schema is
// recursive, or so branched that documents are counted one by one.
func (p *plan) bound() float64 {
	const dear = 10_000
	ways := map[*node]float64{}
	open := map[*node]bool{}
	var visit func(n *node) float64
	visit = func(n *node) float64 {
		if w, done := ways[n]; done {
			return w
		}
		if open[n] {
			return dear + 1
		}
		open[n] = true
		sum := weight(n.schema)
		for _, m := range n.same {
			sum += visit(m)
		}
		for _, s := range innerValues(n.schema) {
			sum += visit(p.nodes[s])
		}
		open[n] = false
		ways[n] = sum
		return sum
	}
	if w := visit(p.root); w <= dear {
		return w
	}
	return 0
}

// weight is what applying a schema once costs beside its subschemas, in checks.
func weight(s *jsonschema.Schema) float64 {
	const cheaper = 16 // comparing a value or a name, against all that applying a schema takes
	compared := len(s.Required)
	if s.Enum != nil {
		compared += len(s.Enum.Values)
	}
	return 1 + float64(compared)/cheaper
}

// cheap says that no document of that length can take too much work.
func (p *plan) cheap(bytes int) bool {
	return p.perByte > 0 && p.perByte*float64(bytes) <= maxChecks
}

// check refuses a document that would take too much work. It is an *Invalid.
func (p *plan) check(doc any, bytes int) error {
	if p.cheap(bytes) {
		return nil
	}
	c := counter{plan: p}
	c.count(map[*node]float64{p.root: 1}, doc)
	if c.total <= maxChecks {
		return nil
	}
	return &Invalid{Problems: []Problem{{Message: fmt.Sprintf(
		"it would take more than %d checks by this schema; make it smaller or less nested", maxChecks)}}}
}
