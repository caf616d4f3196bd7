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
	enough          = 1.45 // the lowest score of a tool that is chosen
	margin          = 0.08 // the lead over the next tool that a tool with side effects needs
	mostlyExplained = 0.52 // the share of a clause's words that a tool must account for if it does not know all of them
	maxRated        = 10   // how many of the best matches are rated, besides the tools that the clause names
)

// choice is a tool for a demand, with its input.
type choice struct {
	*input.Params // nil: none
	clause        *input.Clause
	filled        input.Filled
	resultProp    string // the property that is filled from an earlier result; "" if none
	notUnderstood string // the part of the demand that the tool does not understand; "" if none
	score         float64

	verb    float64 // positive if the clause has the verb at the beginning of the tool's name, negative if not, 0 if there is no verb
	share   float64 // how much of the clause the tool accounts for, from 0 to 1
	unknown string  // the first word that the tool does not account for
	ignored string  // the clause from the first word for which ignores is true; "" if none
}

// choose returns the best tool for a demand. It sets notUnderstood if no tool fits, or if the best tool has side effects and leads by too little. later is true for all
// demands but the first.
func (w *work) choose(c *input.Clause, later bool) choice {
	all := []*choice{{score: -9}}
	refersBack := slices.ContainsFunc(c.Tokens, func(t input.Token) bool { return rank.In("back", t.Term) })
	hits := w.tools.Search(c.Text)
	for i, h := range hits {
		if named := c.Names(h.Tool); i < maxRated || named {
			ch := &choice{Params: paramsOf(h), clause: c}
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

// paramsOf returns the Params of a tool, which its index keeps for later requests.
func paramsOf(h rank.Hit) *input.Params {
	return h.Derive(func(t *commonv1.Tool) any { return input.ParamsOf(catalog.NewTool(t)) }).(*input.Params)
}

// rate fills the tool's input from the clause and scores the tool. relevance is its share of the best score in the ranking. refersBack is true if
// the clause refers to an earlier result, named if it names the tool.
func (ch *choice) rate(relevance float64, refersBack, named bool) {
	ch.filled = ch.Fill(ch.clause)
	f := &ch.filled
	if refersBack && len(f.Missing) == 1 && ch.Prop(f.Missing[0]).Takes("string") {
		ch.resultProp, f.Missing = f.Missing[0], nil // an earlier step returns it
		if ch.TakesPath(ch.resultProp) {
			f.Implied = append(f.Implied, "file", "path")
		}
	}
	if counting.MatchString(ch.clause.Text) {
		f.Implied = append(f.Implied, "list", "search") // such tools return what is counted
	} else if listing.MatchString(ch.clause.Text) {
		f.Implied = append(f.Implied, "list")
	}
	clauseTerms := map[string]bool{} // none of values
	for _, t := range ch.clause.Tokens {
		clauseTerms[t.Term] = true
	}
	if rank.In("act", ch.NameTerms[0]) {
		if ch.verb = 0.35; !rank.Has(clauseTerms, ch.NameTerms[0]) {
			ch.verb = -0.35
		}
	}
	for _, term := range f.Implied {
		clauseTerms[term] = true
	}
	ch.explain()
	ch.score = 1.3*max(cover(clauseTerms, ch.NameTerms), 0.85*cover(clauseTerms, ch.PurposeTerms)) + 0.9*ch.share + 0.3*relevance + ch.verb + 0.25
	if ch.Required > 0 {
		ch.score += 0.25 - 0.5*float64(len(f.Missing))/float64(ch.Required)
	}
	if ch.notUnderstood = ch.unclearPart(named); ch.notUnderstood != "" {
		ch.score -= 0.5
	} else if named {
		ch.score += 5
	}
}

// listing matches clauses that ask for a list without saying so: which files are in docs, show the folders in src.
var listing = regexp.MustCompile(`(?i)^\s*(?:which|what|show)\b.*\b(?:files|folders|directories)\b`)

// inquiry matches questions whose answer is yes or no, or an explanation of an action.
var inquiry = regexp.MustCompile(`(?i)^\s*(?:(?:does|do|did|is|are|was|were|has|have|why|explain|should)\b|how (?:do|does|can|could|to|should|would|did) |what does |怎么|如何|为什么)|吗\s*[?？]?\s*$`)

// unclearPart returns the part of the clause that the tool does not understand, or "".
func (ch *choice) unclearPart(named bool) string {
	asks := inquiry.MatchString(ch.clause.Text)
	switch {
	case ch.ignored != "":
		return ch.ignored
	case len(ch.filled.Unassigned) > 0:
		return strings.Join(ch.filled.Unassigned, ", ")
	case asks && !ch.Reads():
		return ch.clause.Text
	case named:
		return ""
	case ch.verb < 0 && (asks || !ch.Reads()):
		return cmp.Or(ch.unknown, ch.clause.Text)
	case asks, len(ch.filled.Missing) > 0, ch.share < mostlyExplained, ch.GetEffect() == commonv1.Effect_EFFECT_DESTRUCTIVE:
		return ch.unknown
	}
	return ""
}

// cover returns the share of the wanted terms that a clause has. Words that many tools have in their names count less.
func cover(clauseTerms map[string]bool, wanted []string) float64 {
	got, all := 0.0, 0.0
	for _, term := range wanted {
		weight := 1.0
		switch {
		case rank.Stop(term):
			continue
		case rank.In("vague", term):
			weight = 0.25
		}
		if all += weight; rank.Has(clauseTerms, term) {
			got += weight
		}
	}
	return got / max(all, 0.5)
}

// explain sets the share of the clause's words that the tool's words or input account for, the first unknown word and the ignored rest.
func (ch *choice) explain() {
	got, all := 0.0, 0.5
	for i, t := range ch.clause.Tokens {
		switch {
		case ch.filled.Used[i]:
			got, all = got+0.5, all+0.5
			continue
		case t.Value != nil:
			continue
		case ch.ignored == "" && ch.ignores(i):
			ch.ignored = strings.TrimRight(ch.clause.Text[t.Start:], " .?!。？！")
		}
		switch {
		case rank.Stop(t.Term) || rank.In("vague", t.Term) || rank.In("polite", t.Term) || !wordLike(t.Text):
		case rank.Has(ch.Terms, t.Term):
			got, all = got+1, all+1
		default:
			all++
			ch.unknown = cmp.Or(ch.unknown, ch.clause.TextOf(t))
			if slices.ContainsFunc(ch.clause.Tokens[max(0, i-2):i], func(t input.Token) bool { return rank.In("listing", t.Text) }) {
				all += 5 // X and Y matter most in "mention X or Y"
			}
		}
	}
	ch.share = got / all
}

func wordLike(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' }) }

// ignores reports whether a word changes the meaning of the clause and has no use in the tool: a denial or condition; or a limit or comparison
// that the tool's words do not contain and that does not stand before a value.
func (ch *choice) ignores(i int) bool {
	t, next := ch.clause.Tokens[i], ch.filled.Used[i+1:min(i+3, len(ch.filled.Used))]
	switch {
	case rank.In("deny", t.Term), strings.HasSuffix(t.Text, "n't"), strings.HasSuffix(t.Text, "n’t"):
		return true
	case i > 0 && ch.clause.Tokens[i-1].Text == "how", slices.Contains(ch.NameTerms, t.Term), slices.Contains(ch.PurposeTerms, t.Term),
		slices.Contains(rank.Terms(strings.Join(ch.filled.Input.Keys(), " ")), t.Term):
		return false // how big; what the tool is for; the name of a property that is filled
	case rank.In("compare", t.Term):
		return len(next) == 0 || !next[0] || rank.Words("role", t.Term) == nil // "the last 5 lines" is understood
	case rank.In("limit", t.Term):
		return !slices.Contains(next, true)
	}
	return false
}
