// Package rank orders tools with BM25 by how well their names, descriptions and parameters match a text, in English and Chinese. It knows
// words but no grammar.
package rank

import (
	"cmp"
	"math"
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/schema"
)

// BM25's constants: k1 bounds the weight of repeated terms, b is the penalty for length.
const k1, b = 1.2, 0.5

// Index holds the terms of a list of tools. It may be used by several goroutines.
type Index struct {
	tools    []*commonv1.Tool
	postings map[string][]posting // by term, in the order of the tools
	lengths  []float64            // by tool: the sum of its weights
	total    float64              // of lengths
	derived  sync.Map             // see Hit.Derive; by *commonv1.Tool
}

// posting is the weight of a term in a tool.
type posting struct {
	tool   int
	weight float64
}

// Hit is a tool that matches a text.
type Hit struct {
	Tool     *commonv1.Tool
	Score    float64
	Position int // of the tool, in the tools of all indexes

	index *Index
}

// New indexes a list of tools.
func New(tools []*commonv1.Tool) *Index {
	x := &Index{tools: tools, postings: map[string][]posting{}, lengths: make([]float64, len(tools))}
	for i, t := range tools {
		x.add(i, t.GetName(), 4)
		x.add(i, t.GetTitle()+" "+t.GetDescription(), 1)
		if compiled, err := schema.Compile(t.GetInputSchemaJson()); err == nil {
			for _, p := range compiled.Properties() {
				x.add(i, p.Name, 1.5)
				x.add(i, p.Description+" "+p.Enum, 0.5)
			}
		}
		x.total += x.lengths[i]
	}
	return x
}

// add adds the terms of a tool's text.
func (x *Index) add(tool int, text string, weight float64) {
	for _, term := range Terms(text) {
		list := x.postings[term]
		if n := len(list); n == 0 || list[n-1].tool != tool {
			list = append(list, posting{tool: tool})
		}
		list[len(list)-1].weight += weight
		x.postings[term] = list
		x.lengths[tool] += weight
	}
}

// Search returns the tools of all indexes that match a text, best first. Tools with equal scores keep their order. A synonym of a term counts less
// than the term.
func Search(indexes []*Index, text string) []Hit {
	n, total := 0, 0.0
	for _, x := range indexes {
		n, total = n+len(x.tools), total+x.total
	}
	scores, counted := make([]float64, n), map[string]bool{}
	count := func(term string, weight float64) {
		if counted[term] || Stop(term) {
			return
		}
		counted[term] = true
		matching := 0
		for _, x := range indexes {
			matching += len(x.postings[term])
		}
		rarity := math.Log(1 + (float64(n-matching)+0.5)/(float64(matching)+0.5))
		first := 0
		for _, x := range indexes {
			for _, p := range x.postings[term] {
				scores[first+p.tool] += weight * rarity * p.weight * (k1 + 1) / (p.weight + k1*(1-b+b*x.lengths[p.tool]*float64(n)/total))
			}
			first += len(x.tools)
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
	return sorted(indexes, scores)
}

// sorted returns the tools with a score.
func sorted(indexes []*Index, scores []float64) (hits []Hit) {
	at := 0
	for _, x := range indexes {
		for _, t := range x.tools {
			if scores[at] > 0 {
				hits = append(hits, Hit{Tool: t, Score: scores[at], Position: at, index: x})
			}
			at++
		}
	}
	slices.SortStableFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) })
	return hits
}

// Derive returns what derive makes of the tool. The index keeps it for later searches.
func (h Hit) Derive(derive func(*commonv1.Tool) any) any {
	known, ok := h.index.derived.Load(h.Tool)
	if !ok {
		known, _ = h.index.derived.LoadOrStore(h.Tool, derive(h.Tool))
	}
	return known
}
