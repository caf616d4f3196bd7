package offline

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/extract"
	"pawl.dev/planner-svc/internal/rank"
)

// What a tool must reach to be chosen, and how much better than the next it must be if it changes something.
const (
	enough = 1.45
	margin = 0.08

	tolerable = 0.72 // share of the words that must be understood

	considered = 10 // tools that ranking puts first
)

// choice is a tool for a demand, with its input.
type choice struct {
	tool   *catalog.Tool
	filled extract.Filled
	score  float64
	back   string // the property that is filled from an earlier result; "" if none
	not    string // what of the demand the tool does not understand; "" if nothing
}

// choose returns the best tool for a demand. If no tool fits, its tool is nil and not says what was not understood.
// later reports that another demand comes before it.
func (w *work) choose(c *extract.Clause, later bool) choice {
	var all []choice
	hits := w.index.Search(c.Text)
	for i, h := range hits {
		named := isNamed(c, h.Tool)
		if i >= considered && !named {
			continue
		}
		ch := w.consider(c, h.Tool, h.Score/hits[0].Score, later)
		if named {
			ch.score += 5
		}
		all = append(all, ch)
	}
	slices.SortStableFunc(all, func(a, b choice) int { return cmp.Compare(b.score, a.score) })
	if len(all) == 0 || all[0].score < enough {
		return choice{not: c.Text}
	}
	best := all[0]
	if len(all) > 1 && best.score-all[1].score < margin && !best.tool.Reads() && !all[1].tool.Reads() && best.not == "" && all[1].not == "" && best.tool.GetName() != all[1].tool.GetName() {
		return choice{not: c.Text + " (" + best.tool.GetId() + " / " + all[1].tool.GetId() + ")"}
	}
	return best
}

// isNamed reports whether a clause names a tool by its id, or by a name that is no plain word.
func isNamed(c *extract.Clause, t *commonv1.Tool) bool {
	return slices.ContainsFunc(c.Mentions, func(m extract.Mention) bool {
		return m.Kind != extract.Quoted && (strings.EqualFold(m.Text, t.GetId()) || strings.EqualFold(m.Text, t.GetName()))
	})
}

// consider fills a tool's input from a clause and rates the tool. relevance is its place in the ranking, from 0 to 1; later reports that another
// demand comes before the clause.
func (w *work) consider(c *extract.Clause, t *commonv1.Tool, relevance float64, later bool) choice {
	own := w.index.words(t)
	ch := choice{tool: own.tool, filled: extract.Fill(own.tool, c)}
	if later && refersBack(c) {
		ch.fillFromBefore()
	}
	f := &ch.filled
	cover := max(own.cover(c, f, own.name), 0.85*own.cover(c, f, own.about))
	explained, strange := own.explains(c, f)
	ch.not = own.notUnderstood(c, f, isNamed(c, t))
	switch {
	case ch.not != "":
	case len(f.Left) > 0:
		ch.not = strings.Join(f.Left, ", ")
	case strange != "" && !isNamed(c, t) && (len(f.Missing) > 0 || cover < 0.75 || explained < tolerable):
		ch.not = strange
	}
	ch.score = 1.3*cover + 0.9*explained + 0.3*relevance + 0.5*own.filledShare(f) - 0.25*float64(len(f.Missing)) - 0.3*float64(len(f.Left)) + own.verbFit(c)
	if ch.not != "" {
		ch.score -= 0.5
	}
	if strings.Contains(strings.ToLower(t.GetTitle()+t.GetDescription()), "deprecated") {
		ch.score -= 0.3
	}
	return ch
}

// fillFromBefore leaves the only text that is missing to what an earlier step returns.
func (ch *choice) fillFromBefore() {
	missing := ch.filled.Missing
	if len(missing) != 1 || !ch.tool.Prop(missing[0]).Takes("string") {
		return
	}
	ch.filled.Missing, ch.back = nil, missing[0]
	if extract.TakesPath(ch.tool.Prop(ch.back)) {
		ch.filled.Implied = append(ch.filled.Implied, "file", "path")
	}
}

// filledShare is how many of the required properties are filled; a half if none is required.
func (o *words) filledShare(f *extract.Filled) float64 {
	required := 0
	for _, p := range o.tool.Props {
		if p.Required {
			required++
		}
	}
	if required == 0 {
		return 0.5
	}
	return float64(required-len(f.Missing)) / float64(required)
}

// words are what a tool speaks of.
type words struct {
	tool  *catalog.Tool
	name  []string
	about []string        // the first sentence of the description
	exact map[string]bool // of name, title, description and properties
	terms map[string]bool // those, and what means the same as those of names
}

func newWords(t *catalog.Tool) *words {
	o := &words{tool: t, name: rank.Terms(t.GetName()), exact: map[string]bool{}, terms: map[string]bool{}}
	first, _, _ := strings.Cut(t.GetDescription(), ". ")
	o.about = rank.Terms(first)
	text := t.GetName() + " " + t.GetTitle() + " " + t.GetDescription()
	names := t.GetName() + " " + t.GetTitle() + " " + t.GetDescription()
	for _, p := range t.Props {
		text += " " + p.Name + " " + p.Description + " " + p.Enum
		names += " " + p.Name
	}
	for _, term := range rank.Terms(text) {
		o.terms[term], o.exact[term] = true, true
	}
	for _, term := range rank.Terms(names) {
		for _, s := range rank.Synonyms(term) {
			o.terms[s] = true
		}
	}
	return o
}

// vague are verbs that many tools have in their names; they say little about one.
var vague = termSet("get find show list search look lookup calculate compute fetch retrieve return check read query display current tool s e g")

// generic are verbs that any question can begin with.
var generic = termSet("get find show give calculate compute determine look check fetch retrieve return provide display work")

// acts are verbs of tools that do more than answer.
var acts = termSet("create delete remove write update set add send move rename copy book reserve buy order cancel post publish run execute trigger toggle subscribe schedule rent edit append install deploy start stop convert translate")

// cover is how much of the tool's name, or of its description's first sentence, the clause says.
func (o *words) cover(c *extract.Clause, f *extract.Filled, terms []string) float64 {
	said := map[string]bool{}
	for _, term := range f.Implied {
		said[term] = true
	}
	for _, tok := range c.Tokens {
		if tok.Mention < 0 {
			said[tok.Term] = true
		} else if m := c.Mentions[tok.Mention]; m.Kind != extract.Quoted {
			for _, term := range rank.Terms(m.Text) {
				said[term] = true
			}
			for _, term := range rank.Terms(m.Unit) {
				said[term] = true
			}
		}
	}
	got, all := 0.0, 0.0
	for _, term := range terms {
		weight := 1.0
		if vague[term] {
			weight = 0.25
		}
		if rank.Stop(term) {
			weight = 0
		}
		all += weight
		if said[term] || slices.ContainsFunc(rank.Synonyms(term), func(s string) bool { return said[s] }) {
			got += weight
		}
	}
	return got / max(all, 0.5)
}

// verbFit compares the verb of the clause with that of the tool's name: the same speaks for it, another one against it.
func (o *words) verbFit(c *extract.Clause) float64 {
	own := o.name[0]
	same := func(t extract.Token) bool { return t.Term == own || slices.Contains(rank.Synonyms(t.Term), own) }
	if said := verbOf(c); said != nil {
		verb := specific[said.Term] || acts[said.Term]
		switch {
		case same(*said):
			return 0.35
		case (verb || vague[said.Term]) && slices.Contains(rank.Terms(o.tool.GetDescription()), said.Term):
			return 0.1
		case verb && (specific[own] || acts[own]):
			return -0.5
		}
	}
	switch {
	case slices.ContainsFunc(c.Tokens, same):
		return 0
	case acts[own] && !o.tool.Reads():
		return -0.4
	case specific[own]:
		return -0.2
	}
	return 0
}

// specific are verbs of tools that answer, each in a way of its own.
var specific = termSet("read list search find open")

// knows reports whether a word is one of the tool's, or begins like one.
func (o *words) knows(term string) bool {
	if o.terms[term] || term != "" && term[0] >= utf8.RuneSelf && slices.ContainsFunc(rank.Synonyms(term), func(s string) bool { return o.exact[s] }) {
		return true
	}
	for own := range o.terms {
		if len(own) > 3 && len(term) > 3 && (strings.HasPrefix(own, term) || strings.HasPrefix(term, own)) {
			return true
		}
	}
	return false
}

// explains is how much of what the clause says the tool's words or its input account for.
func (o *words) explains(c *extract.Clause, f *extract.Filled) (share float64, strange string) {
	got, all := 0.0, 0.5
	for i, tok := range c.Tokens {
		switch {
		case f.Used[i]:
			got, all = got+0.5, all+0.5
		case tok.Mention >= 0 || rank.Stop(tok.Term) || vague[tok.Term] || politeness[tok.Term] || !wordLike(tok.Text):
		case o.knows(tok.Term):
			got, all = got+1, all+1
		default:
			all++
			if strange == "" {
				strange = tok.Text
			}
			if i > 0 && extract.Introduces(c.Tokens[i-1].Term) || i > 1 && extract.Introduces(c.Tokens[i-2].Term) {
				all += 5 // "mention X": X is what matters
			}
		}
	}
	return got / all, strange
}

func wordLike(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' }) }

// politeness are words that ask for nothing.
var politeness = termSet("want need like know tell give let us help thanks hello hi just now some any here there all also it its them if then so about use using much far many long whose given between object thing item someone somebody person who me my result named called titled labeled turn switch under below above over within inside into via")

// notUnderstood returns the words of a clause that change its meaning and that the tool has no use for.
func (o *words) notUnderstood(c *extract.Clause, f *extract.Filled, named bool) string {
	if about := explanation.FindString(c.Text); about != "" && !o.tool.Reads() {
		return about
	}
	for i, tok := range c.Tokens {
		if tok.Mention >= 0 || f.Used[i] {
			continue
		}
		if denies(tok.Text) || extract.Limits[tok.Term] && !o.exact[tok.Term] && !o.qualifies(c, f, i) {
			return tok.Text
		}
	}
	verb := verbOf(c)
	if verb == nil || named || o.knows(verb.Term) || generic[verb.Term] || politeness[verb.Term] || f.Used[slices.Index(c.Tokens, *verb)] {
		return ""
	}
	return verb.Text
}

func denies(word string) bool {
	return strings.HasSuffix(word, "n't") || strings.HasSuffix(word, "n’t") || slices.Contains([]string{"not", "never", "without", "except"}, word)
}

// explanation is how a question begins that wants to know of something, not that it is done.
var explanation = regexp.MustCompile(`(?i)^\s*(?:how (?:do|does|can|could|to|should|would|did) |why |what does \S+ (?:do|mean)|explain |should |is it |怎么|如何|为什么)`)

// qualifies reports whether a word stands right before a value that was used: "over 30 years".
func (o *words) qualifies(c *extract.Clause, f *extract.Filled, i int) bool {
	if superlatives[c.Tokens[i].Term] {
		return false
	}
	for j := i + 1; j < len(c.Tokens) && j <= i+2; j++ {
		if f.Used[j] {
			return true
		}
	}
	return false
}

// superlatives compare what is found, which no value of an input does.
var superlatives = termSet("larger bigger smaller longer shorter older newer largest biggest smallest longest shortest oldest newest latest recently recent average mean median total percentage")

// verbOf returns the word that a demand begins with, nil if it is a question.
func verbOf(c *extract.Clause) *extract.Token {
	for i := range c.Tokens {
		t := &c.Tokens[i]
		switch {
		case t.Mention >= 0 || strings.HasPrefix(t.Text, "wh") || t.Text == "how" || t.Text == "is" || t.Text == "are" || t.Text == "does" || t.Text == "do" || t.Text == "did":
			return nil
		case rank.Stop(t.Term) || politeness[t.Term] || !wordLike(t.Text):
			continue
		}
		return t
	}
	return nil
}

func termSet(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[rank.Stem(w)] = true
	}
	return m
}
