package input

import (
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/rank"
)

// neighbours are the words beside a value.
type neighbours struct {
	before      []string // up to three words before the value, without articles, prepositions and the like, the nearest first
	role        string   // the nearest word before the value that names its role: "from"
	left, right Token    // the nearest tokens; left skips articles
}

// neighboursOf returns the words beside a value. Those before it end at another value.
func (f *filling) neighboursOf(v *Value) (a neighbours) {
	tokens := f.c.Tokens
	if v.To < len(tokens) {
		a.right = tokens[v.To]
	}
	for i := v.From - 1; i >= max(0, v.From-8) && len(a.before) < 3; i-- {
		t := tokens[i]
		if a.left.Text == "" && !rank.In("article", t.Text) {
			a.left = t
		}
		if t.Value != nil {
			if len(a.before) == 1 && i+2 < v.From && t.Value.Kind == Number {
				a.before = nil // "3 successes in 10 trials": the word belongs to the number before it
			}
			break
		}
		if len(a.before) == 0 && a.role == "" && rank.Words("role", t.Term) != nil {
			a.role = t.Term
		}
		if !rank.In("glue", t.Term) {
			a.before = append(a.before, t.Term)
		}
	}
	return a
}

// cueScore scores how strongly the words around a value point to a parameter.
func (f *filling) cueScore(d *param, v *Value, a neighbours) float64 {
	if d.form == Path && v.Kind >= Code {
		return f.placeScore(d, v, a)
	}
	score := d.nearScore(a.before, 5, 4, 2.5)
	if v.Kind != Phrase && a.right.Value == nil && !rank.In("glue", a.right.Term) {
		score = max(score, d.nearScore([]string{a.right.Term}, 4.2))
	}
	if (a.role != "of" || v.Kind != Number) && hasTerm(d.nameTerms, rank.Words("role", a.role)...) { // not: a radius of 3
		score += 3
	}
	if v.Kind == Quoted && (d.form == Path || d.form == Glob) && !strings.ContainsAny(v.Text, "./*") && score < 3.5 {
		return never // a quoted text is a path or glob only if its form or the words around it say so
	}
	if v.Kind == Phrase && score < 5 {
		return f.phraseScore(v, a, score)
	}
	return score
}

// phraseScore scores plain words, which are a value only if the words around them mark them as a value.
func (f *filling) phraseScore(v *Value, a neighbours, score float64) float64 {
	switch {
	case f.isOwn(v, Phrase):
		return score - 2
	case score >= 2, a.role != "":
		return score
	case len(f.NameTerms) == 1 && len(a.before) > 0 && rank.Means(f.NameTerms[0], a.before[0]):
		return 2 // echo hello
	}
	return never
}

// placeScore scores a value that does not look like a path, for a parameter that takes one: the words around the value must call it a file or folder,
// or a question must be about it alone.
func (f *filling) placeScore(d *param, v *Value, a neighbours) float64 {
	inside := a.left.Text == "of" || rank.In("inside", a.role) || a.right.isSingular("folder") || a.left.isSingular("folder")
	switch {
	case inside && d.folder:
		return 4
	case inside && (v.Kind == Phrase || a.left.Text != "of"):
		return never
	case a.left.Text == "file", v.Kind != Phrase && inside:
		return 3
	case a.left.Text == "is" && !f.isOwn(v, Phrase), v.Kind != Phrase && a.left.isSingular("place"): // how big is X?
		return 2.5
	}
	return never
}

// isSingular reports whether a token is a word of a class, in the singular.
func (t Token) isSingular(class string) bool {
	return rank.In(class, t.Term) && !strings.HasSuffix(t.Text, "s")
}

// nearScore scores the words near a value by how well they match the parameter's name and, with less weight, its description. Each word has a weight.
func (d *param) nearScore(words []string, weights ...float64) float64 {
	best, matched := 0.0, 0.0
	for k, w := range words {
		if slices.ContainsFunc(d.nameTerms, func(t string) bool { return (len(t) > 1 || !rank.Stop(t)) && rank.Means(t, w) }) {
			best, matched = max(best, weights[k]), matched+1
		} else if !rank.Stop(w) && slices.Contains(d.descTerms, w) {
			best = max(best, 0.45*weights[k])
		}
	}
	if matched > 0 {
		best *= 0.6 + 0.4*min(1, matched/float64(len(d.nameTerms)))
	}
	return best
}
