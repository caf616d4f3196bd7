// Package rank orders tools with BM25 by how well their names, descriptions and parameters match a text, in English and Chinese. It knows
// words but no grammar.
package rank

import (
	"cmp"
	"math"
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
)

// BM25's constants: k1 bounds the weight of repeated terms, b is the penalty for length.
const k1, b = 1.2, 0.5

// Index holds the terms of a list of tools. It may be used by several goroutines.
type Index struct {
	Derived sync.Map // what users of the index derive from its tools, by *catalog.Tool

	tools    []*catalog.Tool
	postings map[string]map[int]float64 // by term and tool: the term's weight
	lengths  []float64                  // by tool: the sum of its weights
	average  float64                    // of lengths
}

// Hit is a tool that matches a text.
type Hit struct {
	Tool  *catalog.Tool
	Score float64
}

// New indexes a list of tools.
func New(tools []*commonv1.Tool) *Index {
	x := &Index{postings: map[string]map[int]float64{}, lengths: make([]float64, len(tools))}
	for i := range tools {
		t := catalog.NewTool(tools[i])
		x.tools = append(x.tools, t)
		x.add(i, t.GetName(), 4)
		x.add(i, t.GetTitle()+" "+t.GetDescription(), 1)
		for _, p := range t.Props {
			x.add(i, p.Name, 1.5)
			x.add(i, p.Description+" "+p.Enum, 0.5)
		}
		x.average += x.lengths[i] / float64(len(tools))
	}
	return x
}

// add adds the terms of a tool's text.
func (x *Index) add(tool int, text string, weight float64) {
	for _, term := range Terms(text) {
		if x.postings[term] == nil {
			x.postings[term] = map[int]float64{}
		}
		x.postings[term][tool] += weight
		x.lengths[tool] += weight
	}
}

// Search returns the tools that match a text, best first. Tools with equal scores keep the list's order. A synonym of a term counts less than the
// term.
func (x *Index) Search(text string) []Hit {
	hits, counted := make([]Hit, len(x.tools)), map[string]bool{}
	count := func(term string, weight float64) {
		if counted[term] || Stop(term) {
			return
		}
		counted[term] = true
		n, matching := float64(len(x.tools)), float64(len(x.postings[term]))
		rarity := math.Log(1 + (n-matching+0.5)/(matching+0.5))
		for i, w := range x.postings[term] {
			hits[i].Tool = x.tools[i]
			hits[i].Score += weight * rarity * w * (k1 + 1) / (w + k1*(1-b+b*x.lengths[i]/x.average))
		}
	}
	terms := Terms(text)
	for _, term := range terms {
		count(term, 1)
	}
	for _, term := range terms {
		for _, s := range Synonyms(term) {
			count(s, 0.6)
		}
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool { return h.Tool == nil })
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

// maxCached bounds the indexes of a Cache. A task asks about the same list of tools at every step.
const maxCached = 16

// Cache keeps the indexes of the last lists of tools. Its zero value is ready, and it is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	indexes []*Index // guarded by mu; the newest first
}

// Index returns the index of a list of tools. Its hits may be tools of an earlier, equal list.
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

// equal compares the fields of a tool that users of an index read.
func equal(a *catalog.Tool, b *commonv1.Tool) bool {
	return a.Tool == b || a.GetId() == b.GetId() && a.GetName() == b.GetName() && a.GetTitle() == b.GetTitle() && a.GetDescription() == b.GetDescription() &&
		a.GetInputSchemaJson() == b.GetInputSchemaJson() && a.GetEffect() == b.GetEffect() && a.GetRiskFloor() == b.GetRiskFloor()
}
