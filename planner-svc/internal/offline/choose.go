package offline

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

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
	tool          *catalog.Tool
	filled        input.Filled
	score         float64
	back          string // the property that is filled from an earlier result; "" if none
	notUnderstood string // the part of the demand that the tool does not understand; "" if none
}

// choose returns the best tool for a demand. If no tool fits, its tool is nil and notUnderstood is set.
// later reports that another demand comes before it.
func (w *work) choose(c *input.Clause, later bool) choice {
	var all []choice
	hits := w.index.Search(c.Text)
	for i, h := range hits {
		named := c.Names(h.Tool)
		if i >= considered && !named {
			continue
		}
		ch := w.aboutOf(h.Tool).consider(c, h.Score/hits[0].Score, later && refersBack(c), named)
		all = append(all, ch)
	}
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(b.score, a.score) })
	if len(all) == 0 {
		return choice{notUnderstood: c.Text}
	}
	best := all[0]
	if best.score < enough {
		return choice{notUnderstood: cmp.Or(best.notUnderstood, c.Text)}
	}
	if len(all) > 1 && best.score-all[1].score < margin && !best.tool.Reads() && !all[1].tool.Reads() && best.notUnderstood == "" && all[1].notUnderstood == "" && best.tool.GetName() != all[1].tool.GetName() {
		return choice{notUnderstood: c.Text + " (" + best.tool.GetId() + " / " + all[1].tool.GetId() + ")"}
	}
	return best
}

// consider fills the tool's input from a clause and rates the tool. relevance is its place in the ranking, from 0 to 1.
func (a *about) consider(c *input.Clause, relevance float64, back, named bool) choice {
	ch := choice{tool: a.params.Tool, filled: a.params.Fill(c)}
	if back {
		ch.fillFromBefore(a.params)
	}
	f := &ch.filled
	if countOf(c.Text) != "" {
		f.Implied = append(f.Implied, "list", "search") // what is counted
	}
	said := saidIn(c, f)
	fit := a.verbFit(c, said)
	cover := max(said.cover(a.params.Name), 0.85*said.cover(a.purpose))
	explained, _ := a.explains(c, f)
	ch.notUnderstood = a.notUnderstood(c, f, named)
	switch {
	case ch.notUnderstood != "":
	case len(f.Left) > 0:
		ch.notUnderstood = strings.Join(f.Left, ", ")
	case !named:
		ch.notUnderstood = a.unfit(c, f, fit)
	}
	ch.score = 1.3*cover + 0.9*explained + 0.3*relevance + 0.5*a.filled(f) - 0.25*float64(len(f.Missing)) + fit
	if ch.notUnderstood != "" {
		ch.score -= 0.5
	}
	if named {
		ch.score += 5
	}
	return ch
}

// unfit returns what of a clause a tool that it does not name is too far from; "" if it fits.
func (a *about) unfit(c *input.Clause, f *input.Filled, fit float64) string {
	explained, strange := a.explains(c, f)
	switch {
	case fit < 0 && !a.params.Reads():
		return c.Text
	case yesNo.MatchString(c.Text) && (strange != "" || fit < 0):
		return cmp.Or(strange, c.Text)
	case len(f.Missing) > 0 || explained < mostlyExplained || a.params.GetEffect() == commonv1.Effect_EFFECT_DESTRUCTIVE:
		return strange
	}
	return ""
}

// fillFromBefore leaves the only text that is missing to what an earlier step returns.
func (ch *choice) fillFromBefore(p *input.Params) {
	missing := ch.filled.Missing
	if len(missing) != 1 || !p.Prop(missing[0]).Takes("string") {
		return
	}
	ch.filled.Missing, ch.back = nil, missing[0]
	if p.TakesPath(ch.back) {
		ch.filled.Implied = append(ch.filled.Implied, "file", "path")
	}
}

// about is what is known of a tool.
type about struct {
	params  *input.Params
	purpose []string        // terms of the first sentence of its description
	exact   map[string]bool // of name, title, description and properties
	own     map[string]bool // of name, title and purpose
	terms   map[string]bool // those, and what means the same as those of names

	required float64 // how many properties are
}

// aboutOf returns what is known of a tool of the index.
func (w *work) aboutOf(t *catalog.Tool) *about {
	if known, ok := w.index.Known.Load(t); ok {
		return known.(*about)
	}
	first, _, _ := strings.Cut(t.GetDescription(), ". ")
	a := &about{params: input.ParamsOf(t), purpose: rank.Terms(first), exact: map[string]bool{}, own: map[string]bool{}, terms: map[string]bool{}}
	add := func(text string, synonyms bool) {
		for _, term := range rank.Terms(text) {
			a.exact[term], a.terms[term] = true, true
			for _, s := range rank.Synonyms(term) {
				a.terms[s] = a.terms[s] || synonyms
			}
		}
	}
	add(t.GetName()+" "+t.GetTitle()+" "+t.GetDescription(), true)
	for _, p := range t.Props {
		if p.Required {
			a.required++
		}
		add(p.Name, true)
		add(p.Description+" "+p.Enum, false)
	}
	for _, term := range rank.Terms(t.GetName() + " " + t.GetTitle() + " " + first) {
		a.own[term] = true
	}
	w.index.Known.Store(t, a)
	return a
}

// filled is how many of the required properties are filled; a half if none is required.
func (a *about) filled(f *input.Filled) float64 {
	if a.required == 0 {
		return 0.5
	}
	return 1 - float64(len(f.Missing))/a.required
}

// said are the terms of a clause, and those that its values stand for.
type said map[string]bool

func saidIn(c *input.Clause, f *input.Filled) said {
	s := said{}
	for _, term := range f.Implied {
		s[term] = true
	}
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

// means reports whether two terms mean the same.
func means(a, b string) bool { return a == b || slices.Contains(rank.Synonyms(a), b) }

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

// knows reports whether a word is one of the tool's, or begins like one.
func (a *about) knows(term string) bool {
	if a.terms[term] || term != "" && term[0] >= utf8.RuneSelf && slices.ContainsFunc(rank.Synonyms(term), func(s string) bool { return a.exact[s] }) {
		return true
	}
	for own := range a.terms {
		if len(own) > 3 && len(term) > 3 && (strings.HasPrefix(own, term) || strings.HasPrefix(term, own)) {
			return true
		}
	}
	return false
}

// explains is how much of what the clause says the tool's words or its input account for; strange is the first word that they do not.
func (a *about) explains(c *input.Clause, f *input.Filled) (share float64, strange string) {
	got, all := 0.0, 0.5
	for i, t := range c.Tokens {
		switch {
		case f.Used[i]:
			got, all = got+0.5, all+0.5
		case t.Value != nil || rank.Stop(t.Term) || rank.In("vague", t.Term) || asksNothing(t.Term) || !wordLike(t.Text):
		case a.knows(t.Term):
			got, all = got+1, all+1
		default:
			all++
			strange = cmp.Or(strange, c.Said(t))
			if i > 1 && f.Used[i-2] && rank.In("listing", c.Tokens[i-1].Text) || slices.ContainsFunc(c.Tokens[max(0, i-2):i], func(before input.Token) bool {
				return rank.In("seek", before.Term) && !rank.In("generic", before.Term) && !rank.In("vague", before.Term)
			}) {
				all += 5 // "mention X or Y": they are what matters
			}
		}
	}
	return got / all, strange
}

func asksNothing(term string) bool { return rank.In("polite", term) || rank.In("greeting", term) }

func wordLike(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' }) }

// explanation is how a question begins that wants to know of something, not that it is done.
var explanation = regexp.MustCompile(`(?i)^\s*(?:how (?:do|does|can|could|to|should|would|did) |why |what does \S+ (?:do|mean)|explain |should |is it |怎么|如何|为什么)`)

// yesNo is how a question begins, or in Chinese ends, whose answer is yes or no: what a tool shows that only knows a part of it is none.
var yesNo = regexp.MustCompile(`(?i)^\s*(?:does|do|did|is|are|was|were|has|have)\b|吗\s*[?？]?\s*$`)

// notUnderstood returns the words of a clause that change its meaning and that the tool has no use for: a limit or comparison that is not the tool's
// and does not stand before a value, a denial, or another verb.
func (a *about) notUnderstood(c *input.Clause, f *input.Filled, named bool) string {
	if question := explanation.FindString(c.Text); question != "" && !a.params.Reads() {
		return question
	}
	for i, t := range c.Tokens {
		if t.Value == nil && !f.Used[i] && a.ignores(c, f, i) {
			return c.Said(t)
		}
	}
	if i := verbOf(c); i >= 0 && !named && !f.Used[i] && !a.knows(c.Tokens[i].Term) && !rank.In("generic", c.Tokens[i].Term) {
		return c.Said(c.Tokens[i])
	}
	return ""
}

// ignores reports whether a word changes the meaning of a clause and the tool has no use for it.
func (a *about) ignores(c *input.Clause, f *input.Filled, i int) bool {
	t, before, next := c.Tokens[i], input.Token{}, f.Used[i+1:min(i+3, len(f.Used))]
	if i > 0 {
		before = c.Tokens[i-1]
	}
	switch {
	case rank.In("deny", t.Term), strings.HasSuffix(t.Text, "n't"), strings.HasSuffix(t.Text, "n’t"):
		return true
	case rank.In("condition", t.Term):
		return verbOf(c) >= 0 && !slices.ContainsFunc(c.Tokens[max(0, i-2):i], func(t input.Token) bool { return rank.In("inquire", t.Term) })
	case before.Text == "how", a.takes(f, t.Term): // how big
		return false
	case rank.In("compare", t.Term):
		return len(next) == 0 || !next[0] || rank.Words("role", t.Term) == nil // not: the last 5 lines
	case rank.In("limit", t.Term):
		perUnit := before.Value != nil && before.Value.Kind == input.Number && f.Used[i-1] && a.exact[t.Term] // $180 per night
		return !perUnit && !slices.Contains(next, true)
	}
	return false
}

// takes reports whether a word is one of what the tool is for, or of the name of a property that is filled.
func (a *about) takes(f *input.Filled, term string) bool {
	return a.own[term] || slices.Contains(rank.Terms(strings.Join(f.Input.Keys(), " ")), term)
}

// verbFit compares what the tool does, if its name begins with a verb, with what the clause says: the same speaks for it, another or nothing against it.
func (a *about) verbFit(c *input.Clause, said said) float64 {
	if !rank.In("act", a.params.Name[0]) {
		return 0
	}
	i := verbOf(c)
	switch {
	case i >= 0 && means(c.Tokens[i].Term, a.params.Name[0]):
		return 0.35
	case said.says(a.params.Name[0]), i >= 0 && slices.Contains(a.purpose, c.Tokens[i].Term):
		return 0
	}
	return -0.35
}

// verbOf returns the token of the word that a demand begins with, -1 if it is a question.
func verbOf(c *input.Clause) int {
	for i, t := range c.Tokens {
		switch {
		case t.Value != nil || strings.HasPrefix(t.Text, "wh") || slices.Contains([]string{"how", "is", "are", "does", "do", "did"}, t.Text):
			return -1
		case !rank.Stop(t.Term) && !asksNothing(t.Term) && wordLike(t.Text):
			return i
		}
	}
	return -1
}
