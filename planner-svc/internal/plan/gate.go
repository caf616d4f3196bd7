package plan

import (
	"strings"

	"pawl.dev/planner-svc/internal/llm"
)

// holdBack is how many bytes of a reply are held back before it is shown as the answer. Models like to announce a tool call in a short sentence,
// which is then known not to be the answer before anything was shown. Decision 0038 has the reasons.
const holdBack = 120

// gate lets the text of a reply through as the answer while it is written, unless a tool call follows.
type gate struct {
	emit     func(text string) error // nil: nothing is shown
	holdBack int

	held   strings.Builder
	open   bool // the text is shown as it comes
	closed bool // the reply calls a tool, or an earlier one of the same turn was shown
	shown  bool
}

// delta takes a piece of a reply.
func (g *gate) delta(d llm.Delta) error {
	switch {
	case g.emit == nil || g.closed:
		return nil
	case d.Call:
		g.closed = true
		return nil
	case d.Text == "":
		return nil
	case g.open:
		return g.emit(d.Text)
	}
	g.held.WriteString(d.Text)
	if g.held.Len() < g.holdBack {
		return nil
	}
	text := g.held.String()
	g.held.Reset()
	g.open, g.shown = true, true
	return g.emit(text)
}

// next prepares for another reply. If something was shown already, that one is shown only by finish.
func (g *gate) next() {
	g.held.Reset()
	g.open, g.closed = false, g.shown
}

// finish shows what was not shown of the answer.
func (g *gate) finish(answer string) error {
	if g.emit == nil || g.open || answer == "" {
		return nil
	}
	return g.emit(answer)
}
