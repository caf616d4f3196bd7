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
	enough          = 1.45 // what a tool must reach to be chosen
	margin          = 0.08 // how much better than the next a tool must be that changes something
	mostlyExplained = 0.52 // share of a clause's words that a tool must account for if it does not know one
	considered      = 10   // tools that ranking puts first
)

// choice is a tool for a demand, with its input.
type choice struct {
	tool          *input.Params
	filled        input.Filled
	score         float64
	back          string // the property that is filled from an earlier result; "" if none
	notUnderstood string // the part of the demand that the tool does not understand; "" if none
}

// choose returns the best tool for a demand. If no tool fits, notUnderstood is set. later reports that another demand comes before it.
func (w *work) choose(c *input.Clause, later bool) choice {
	all := []choice{{score: -9}}
	hits := w.index.Search(c.Text)
	for i, h := range hits {
		if named := c.Names(h.Tool); i < considered || named {
			all = append(all, w.paramsOf(h.Tool).consider(c, h.Score/hits[0].Score, later && refersBack(c), named))
		}
	}
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(b.score, a.score) })
	best, next := all[0], all[min(1, len(all)-1)]
	switch {
	case best.score < enough:
		return choice{notUnderstood: cmp.Or(best.notUnderstood, c.Text)}
	case best.score-next.score < margin && best.changes() && next.changes() && best.tool.GetName() != next.tool.GetName():
		best.notUnderstood = c.Text + " (" + best.tool.GetId() + " / " + next.tool.GetId() + ")"
	}
	return best
}

// changes reports whether a choice is a call that changes something.
func (ch *choice) changes() bool {
	return ch.tool != nil && !ch.tool.Reads() && ch.notUnderstood == ""
}

// fit is how a tool suits a clause.
type fit struct {
	*input.Params
	c       *input.Clause
	f       *input.Filled
	verb    float64 // how the clause's words suit the verb of the tool's name
	share   float64 // of the clause that the tool accounts for
	strange string  // the first word that it does not account for
}

// paramsOf returns what is known of a tool of the index.
func (w *work) paramsOf(t *catalog.Tool) fit {
	known, ok := w.index.Known.Load(t)
	if !ok {
		known, _ = w.index.Known.LoadOrStore(t, input.ParamsOf(t))
	}
	return fit{Params: known.(*input.Params)}
}

// consider fills the tool's input from a clause and rates the tool. relevance is its place in the ranking, from 0 to 1.
func (a fit) consider(c *input.Clause, relevance float64, back, named bool) choice {
	ch := choice{tool: a.Params, filled: a.Fill(c)}
	a.c, a.f = c, &ch.filled
	if missing := a.f.Missing; back && len(missing) == 1 && a.Prop(missing[0]).Takes("string") {
		a.f.Missing, ch.back = nil, missing[0] // an earlier step returns it
		if a.TakesPath(ch.back) {
			a.f.Implied = append(a.f.Implied, "file", "path")
		}
	}
	if countOf(c.Text) != "" {
		a.f.Implied = append(a.f.Implied, "list", "search") // what is counted
	}
	said := saidIn(c)
	a.verb = a.verbFit(said)
	for _, term := range a.f.Implied {
		said[term] = true
	}
	a.share, a.strange = a.explains()
	ch.score = 1.3*max(said.cover(a.Name), 0.85*said.cover(a.Purpose)) + 0.9*a.share + 0.3*relevance + a.verb + 0.5
	if a.Required > 0 {
		ch.score -= 0.5 * float64(len(a.f.Missing)) / float64(a.Required)
	} else {
		ch.score -= 0.25
	}
	if ch.notUnderstood = a.notUnderstood(named); ch.notUnderstood != "" {
		ch.score -= 0.5
	} else if named {
		ch.score += 5
	}
	return ch
}

// notUnderstood returns the part of a clause that the tool does not understand, or "".
func (a fit) notUnderstood(named bool) string {
	ignored := a.ignored()
	switch {
	case ignored != "":
		return ignored
	case len(a.f.Left) > 0:
		return strings.Join(a.f.Left, ", ")
	case named:
		return ""
	case a.verb < 0 && !a.Reads(), yesNo.MatchString(a.c.Text) && a.verb < 0:
		return cmp.Or(a.strange, a.c.Text)
	case len(a.f.Missing) > 0, a.share < mostlyExplained, a.GetEffect() == commonv1.Effect_EFFECT_DESTRUCTIVE, yesNo.MatchString(a.c.Text):
		return a.strange
	}
	return ""
}

// said are the terms of a clause, and those that its values stand for.
type said map[string]bool

func saidIn(c *input.Clause) said {
	s := said{}
	for _, t := range c.Tokens {
		if t.Value == nil {
			s[t.Term] = true
		} else if t.Value.Kind != input.Quoted {
			for _, term := range rank.Terms(t.Value.Text + " " + t.Value.Unit) {
				s[term] = true
			}
		}
	}
	return s
}

// says reports whether a term, or one that means the same, is said.
func (s said) says(term string) bool {
	return s[term] || slices.ContainsFunc(rank.Synonyms(term), func(other string) bool { return s[other] })
}

// cover is how many of some terms are said. Words that many tools have in their names count less.
func (s said) cover(terms []string) float64 {
	got, all := 0.0, 0.0
	for _, term := range terms {
		weight := 1.0
		if rank.In("vague", term) {
			weight = 0.25
		}
		if rank.Stop(term) {
			weight = 0
		}
		all += weight
		if s.says(term) {
			got += weight
		}
	}
	return got / max(all, 0.5)
}

// knows reports whether a word, or one that means the same, is one of the tool's.
func (a fit) knows(term string) bool {
	return a.Says[term] || slices.ContainsFunc(rank.Synonyms(term), func(s string) bool { return a.Says[s] })
}

// explains is how much of what the clause says the tool's words or its input account for; strange is the first word that they do not.
func (a fit) explains() (share float64, strange string) {
	got, all := 0.0, 0.5
	for i, t := range a.c.Tokens {
		switch {
		case a.f.Used[i]:
			got, all = got+0.5, all+0.5
		case t.Value != nil || rank.Stop(t.Term) || rank.In("vague", t.Term) || rank.In("polite", t.Term) || !wordLike(t.Text):
		case a.knows(t.Term):
			got, all = got+1, all+1
		default:
			all++
			strange = cmp.Or(strange, a.c.Said(t))
			if slices.ContainsFunc(a.c.Tokens[max(0, i-2):i], func(t input.Token) bool {
				return rank.In("listing", t.Text) || rank.In("seek", t.Term) && !rank.In("vague", t.Term)
			}) {
				all += 5 // "mention X or Y": they are what matters
			}
		}
	}
	return got / all, strange
}

func wordLike(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' }) }

// explanation is how a question begins that wants to know of something, not that it is done.
var explanation = regexp.MustCompile(`(?i)^\s*(?:how (?:do|does|can|could|to|should|would|did) |why |what does \S+ (?:do|mean)|explain |should |is it |怎么|如何|为什么)`)

// yesNo is how a question begins, or in Chinese ends, whose answer is yes or no: what a tool shows that only knows a part of it is none.
var yesNo = regexp.MustCompile(`(?i)^\s*(?:does|do|did|is|are|was|were|has|have)\b|吗\s*[?？]?\s*$`)

// ignored returns the word of a clause that changes its meaning and that the tool has no use for: a limit or comparison that is not the tool's
// and does not stand before a value, a denial, or a condition.
func (a fit) ignored() string {
	if question := explanation.FindString(a.c.Text); question != "" && !a.Reads() {
		return question
	}
	for i, t := range a.c.Tokens {
		if t.Value == nil && !a.f.Used[i] && a.ignores(i) {
			return a.c.Said(t)
		}
	}
	return ""
}

func (a fit) ignores(i int) bool {
	t, before, next := a.c.Tokens[i], input.Token{}, a.f.Used[i+1:min(i+3, len(a.f.Used))]
	if i > 0 {
		before = a.c.Tokens[i-1]
	}
	switch {
	case rank.In("deny", t.Term), strings.HasSuffix(t.Text, "n't"), strings.HasSuffix(t.Text, "n’t"):
		return true
	case before.Text == "how", slices.Contains(a.Name, t.Term), slices.Contains(a.Purpose, t.Term), slices.Contains(rank.Terms(strings.Join(a.f.Input.Keys(), " ")), t.Term):
		return false // how big; what the tool is for; the name of a property that is filled
	case rank.In("compare", t.Term):
		return len(next) == 0 || !next[0] || rank.Words("role", t.Term) == nil // not: the last 5 lines
	case rank.In("limit", t.Term):
		return !slices.Contains(next, true)
	}
	return false
}

// verbFit is whether a clause has the verb that the tool's name begins with: that speaks for the tool, its absence against it.
func (a fit) verbFit(said said) float64 {
	switch {
	case !rank.In("act", a.Name[0]):
		return 0
	case said.says(a.Name[0]):
		return 0.35
	}
	return -0.35
}
