package rank

import (
	"cmp"
	"math"
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
)

// Weights of where a term stands, and BM25's constants: k1 bounds what repetition adds, b what length takes away.
const (
	inName        = 4.0
	inDescription = 1.0
	inParameter   = 1.5
	inParamText   = 0.5

	k1, b = 1.2, 0.5

	// asSynonym is what a term counts that only means the same.
	asSynonym = 0.6
)

// Index holds the terms of a list of tools. It may be used by several goroutines.
type Index struct {
	Known sync.Map // what users of the index know of its tools, by *catalog.Tool; it lives as long as the index

	tools    []*catalog.Tool
	postings map[string][]posting
	lengths  []float64
	average  float64
}

type posting struct {
	tool   int
	weight float64 // of the term in the tool
}

// Hit is a tool that matches a text.
type Hit struct {
	Tool  *catalog.Tool
	Score float64
}

// New makes the index of a list of tools. It costs about 50 µs a tool, so callers keep it while the list stays the same.
func New(tools []*commonv1.Tool) *Index {
	x := &Index{postings: map[string][]posting{}, lengths: make([]float64, len(tools))}
	for i := range tools {
		t := catalog.NewTool(tools[i])
		x.tools = append(x.tools, t)
		weights := map[string]float64{}
		add := func(text string, weight float64) {
			for _, term := range Terms(text) {
				weights[term] += weight
				x.lengths[i] += weight
			}
		}
		add(t.GetName(), inName)
		add(t.GetTitle()+" "+t.GetDescription(), inDescription)
		for _, p := range t.Props {
			add(p.Name, inParameter)
			add(p.Description+" "+p.Enum, inParamText)
		}
		for term, w := range weights {
			x.postings[term] = append(x.postings[term], posting{tool: i, weight: w})
		}
		x.average += x.lengths[i] / float64(len(tools))
	}
	return x
}

// Search returns the tools that match a text, best first; those that match nothing are left out. Equal ones keep the list's order.
func (x *Index) Search(text string) []Hit {
	scores := make([]float64, len(x.tools))
	for term, weight := range queryTerms(text) {
		idf := x.rarity(term)
		for _, p := range x.postings[term] {
			norm := 1 - b + b*x.lengths[p.tool]/x.average
			scores[p.tool] += weight * idf * p.weight * (k1 + 1) / (p.weight + k1*norm)
		}
	}
	var hits []Hit
	for i, s := range scores {
		if s > 0 {
			hits = append(hits, Hit{Tool: x.tools[i], Score: s})
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

// maxCached bounds the indexes of a Cache: a task asks about the same list of tools at every step.
const maxCached = 16

// Cache keeps the indexes of the last lists of tools. Its zero value is ready, and it is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	indexes []*Index // guarded by mu; the newest first
}

// Index returns the index of a list of tools. Its hits may be equal tools of an earlier list.
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

// equal compares what planners read of a tool.
func equal(a *catalog.Tool, b *commonv1.Tool) bool {
	return a.Tool == b || a.GetId() == b.GetId() && a.GetName() == b.GetName() && a.GetTitle() == b.GetTitle() && a.GetDescription() == b.GetDescription() &&
		a.GetInputSchemaJson() == b.GetInputSchemaJson() && a.GetEffect() == b.GetEffect() && a.GetRiskFloor() == b.GetRiskFloor()
}

// rarity is a term's inverse document frequency: the fewer tools have it, the more it says.
func (x *Index) rarity(term string) float64 {
	n, with := float64(len(x.tools)), float64(len(x.postings[term]))
	return math.Log(1 + (n-with+0.5)/(with+0.5))
}

// queryTerms returns the terms of a text and those that mean the same, each with its weight.
func queryTerms(text string) map[string]float64 {
	weights := map[string]float64{}
	for _, term := range Terms(text) {
		if Stop(term) {
			continue
		}
		for _, s := range Synonyms(term) {
			weights[s] = max(weights[s], asSynonym)
		}
		weights[term] = 1
	}
	return weights
}
