package offline

import (
	"slices"
	"sync"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// index is a list of tools, ranked and with what is known of them.
type index struct {
	*rank.Index
	tools []*commonv1.Tool
	known sync.Map // *words by *commonv1.Tool
}

// mostIndexes bounds the lists that are kept: a task asks about the same list at every step.
const mostIndexes = 16

// indexOf returns the index of a list of tools, from the kept ones if it is there.
func (p *Planner) indexOf(tools []*commonv1.Tool) *index {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.indexes {
		if slices.EqualFunc(x.tools, tools, sameTool) {
			return x
		}
	}
	x := &index{Index: rank.New(tools), tools: tools}
	p.indexes = append([]*index{x}, p.indexes[:min(len(p.indexes), mostIndexes-1)]...)
	return x
}

func sameTool(a, b *commonv1.Tool) bool {
	return a == b || a.GetId() == b.GetId() && a.GetEffect() == b.GetEffect() && a.GetRiskFloor() == b.GetRiskFloor() && a.GetInputSchemaJson() == b.GetInputSchemaJson() &&
		a.GetDescription() == b.GetDescription() && a.GetTitle() == b.GetTitle()
}

// words returns what a tool of the index speaks of.
func (x *index) words(t *commonv1.Tool) *words {
	if known, ok := x.known.Load(t); ok {
		return known.(*words)
	}
	known := newWords(catalog.NewTool(t))
	x.known.Store(t, known)
	return known
}
