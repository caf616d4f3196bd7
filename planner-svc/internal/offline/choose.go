package offline

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/input"
	"pawl.dev/planner-svc/internal/rank"
)

const (
	enough          = 1.45 // the lowest rating of a tool that is chosen
	margin          = 0.08 // how much better than the next a tool must be that changes something
	mostlyExplained = 0.52 // share of a clause's words that a tool must account for if it does not know one
	considered      = 10   // tools that ranking puts first
)

// choice is a tool for a demand, with its input.
type choice struct {
	*input.Params // nil: none
	c             *input.Clause
	filled        input.Filled
	back          string // the property that is filled from an earlier result; "" if none
	notUnderstood string // the part of the demand that the tool does not understand; "" if none
	score         float64

	verb    float64 // whether the clause has the verb that the tool's name begins with: above 0 if so, below if not
	share   float64 // of the clause that the tool accounts for
	strange string  // the first word that it does not account for
	ignored string  // the rest of the clause from the first word that changes its meaning and that the tool has no use for
}

// choose returns the best tool for a demand. If no tool fits, notUnderstood is set. later reports that another demand comes before it.
func (w *work) choose(c *input.Clause, later bool) choice {
	all := []*choice{{score: -9}}
	refersBack := slices.ContainsFunc(c.Tokens, func(t input.Token) bool { return rank.In("back", t.Term) })
	hits := w.index.Search(c.Text)
	for i, h := range hits {
		if named := c.Names(h.Tool); i < considered || named {
			ch := &choice{Params: w.paramsOf(h.Tool), c: c}
			ch.rate(h.Score/hits[0].Score, later && refersBack, named)
			all = append(all, ch)
		}
	}
	slices.SortStableFunc(all, func(a, b *choice) int { return cmp.Compare(b.score, a.score) })
	best, next := all[0], all[min(1, len(all)-1)]
	switch {
	case best.score < enough:
		return choice{notUnderstood: cmp.Or(best.notUnderstood, c.Text)}
	case best.score-next.score < margin && !best.Reads() && next.notUnderstood == "" && best.GetName() != next.GetName():
		best.notUnderstood = c.Text + " (" + best.GetId() + " / " + next.GetId() + ")"
	}
	return *best
}

// paramsOf returns the Params of a tool of the index: making them takes about a millisecond.
func (w *work) paramsOf(t *catalog.Tool) *input.Params {
	known, ok := w.index.Known.Load(t)
	if !ok {
		known, _ = w.index.Known.LoadOrStore(t, input.ParamsOf(t))
	}
	return known.(*input.Params)
}

// rate fills the tool's input from the clause and rates the tool. relevance is its place in the ranking, from 0 to 1.
func (ch *choice) rate(relevance float64, back, named bool) {
	ch.filled = ch.Fill(ch.c)
	f := &ch.filled
	if back && len(f.Missing) == 1 && ch.Prop(f.Missing[0]).Takes("string") {
		ch.back, f.Missing = f.Missing[0], nil // an earlier step returns it
		if ch.TakesPath(ch.back) {
			f.Implied = append(f.Implied, "file", "path")
		}
	}
	if counting.MatchString(ch.c.Text) {
		f.Implied = append(f.Implied, "list", "search") // what is counted
	}
	said := saidIn(ch.c)
	if rank.In("act", ch.Name[0]) {
		if ch.verb = 0.35; !rank.Has(said, ch.Name[0]) {
			ch.verb = -0.35
		}
	}
	for _, term := range f.Implied {
		said[term] = true
	}
	ch.explain()
	ch.score = 1.3*max(cover(said, ch.Name), 0.85*cover(said, ch.Purpose)) + 0.9*ch.share + 0.3*relevance + ch.verb + 0.25
	if ch.Required > 0 {
		ch.score += 0.25 - 0.5*float64(len(f.Missing))/float64(ch.Required)
	}
	if ch.notUnderstood = ch.unclear(named); ch.notUnderstood != "" {
		ch.score -= 0.5
	} else if named {
		ch.score += 5
	}
}

// inquiry lists beginnings (in Chinese, ends) of questions whose answer is yes or no, or an explanation of an action.
var inquiry = regexp.MustCompile(`(?i)^\s*(?:(?:does|do|did|is|are|was|were|has|have|why|explain|should)\b|how (?:do|does|can|could|to|should|would|did) |what does |怎么|如何|为什么)|吗\s*[?？]?\s*$`)

// unclear returns the part of the clause that the tool does not understand, or "".
func (ch *choice) unclear(named bool) string {
	asks := inquiry.MatchString(ch.c.Text)
	switch {
	case ch.ignored != "":
		return ch.ignored
	case len(ch.filled.Left) > 0:
		return strings.Join(ch.filled.Left, ", ")
	case asks && !ch.Reads():
		return ch.c.Text
	case named:
		return ""
	case ch.verb < 0 && (asks || !ch.Reads()):
		return cmp.Or(ch.strange, ch.c.Text)
	case asks, len(ch.filled.Missing) > 0, ch.share < mostlyExplained, ch.GetEffect() == commonv1.Effect_EFFECT_DESTRUCTIVE:
		return ch.strange
	}
	return ""
}

// saidIn returns the terms of a clause, without those in quotation marks.
func saidIn(c *input.Clause) map[string]bool {
	said := map[string]bool{}
	for _, t := range c.Tokens {
		said[t.Term] = true
		if t.Value != nil && t.Value.Kind != input.Quoted {
			for _, term := range rank.Terms(c.Said(t)) {
				said[term] = true
			}
		}
	}
	return said
}

// cover returns the share of some terms that are said. Words that many tools have in their names count less.
func cover(said map[string]bool, terms []string) float64 {
	got, all := 0.0, 0.0
	for _, term := range terms {
		weight := 1.0
		switch {
		case rank.Stop(term):
			continue
		case rank.In("vague", term):
			weight = 0.25
		}
		if all += weight; rank.Has(said, term) {
			got += weight
		}
	}
	return got / max(all, 0.5)
}

// explain finds the share of the clause's words that the tool's words or its input account for, and the words that they do not.
func (ch *choice) explain() {
	got, all := 0.0, 0.5
	for i, t := range ch.c.Tokens {
		switch {
		case ch.filled.Used[i]:
			got, all = got+0.5, all+0.5
			continue
		case t.Value != nil:
			continue
		case ch.ignored == "" && ch.ignores(i):
			ch.ignored = strings.TrimRight(ch.c.Text[t.Start:], " .?!。？！")
		}
		switch {
		case rank.Stop(t.Term) || rank.In("vague", t.Term) || rank.In("polite", t.Term) || !wordLike(t.Text):
		case rank.Has(ch.Says, t.Term):
			got, all = got+1, all+1
		default:
			all++
			ch.strange = cmp.Or(ch.strange, ch.c.Said(t))
			if slices.ContainsFunc(ch.c.Tokens[max(0, i-2):i], func(t input.Token) bool { return rank.In("listing", t.Text) }) {
				all += 5 // "mention X or Y": they are what matters
			}
		}
	}
	ch.share = got / all
}

func wordLike(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' }) }

// ignores reports whether a word changes the meaning of the clause and the tool has no use for it: a denial, a condition, or a limit, comparison
// or further item that is not the tool's and does not stand before a value.
func (ch *choice) ignores(i int) bool {
	t, next := ch.c.Tokens[i], ch.filled.Used[i+1:min(i+3, len(ch.filled.Used))]
	switch {
	case rank.In("deny", t.Term), strings.HasSuffix(t.Text, "n't"), strings.HasSuffix(t.Text, "n’t"):
		return true
	case i > 0 && ch.c.Tokens[i-1].Text == "how", slices.Contains(ch.Name, t.Term), slices.Contains(ch.Purpose, t.Term),
		slices.Contains(rank.Terms(strings.Join(ch.filled.Input.Keys(), " ")), t.Term):
		return false // how big; what the tool is for; the name of a property that is filled
	case rank.In("compare", t.Term):
		return len(next) == 0 || !next[0] || rank.Words("role", t.Term) == nil // not: the last 5 lines
	case rank.In("limit", t.Term):
		return !slices.Contains(next, true)
	}
	return false
}
