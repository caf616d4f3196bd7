package input

import (
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/rank"
)

// around describes the words beside a value.
type around struct {
	before      []string // up to three words before it that are no prepositions, the nearest first
	role        string   // the nearest word before it that names its role: "from"
	left, right Token    // the nearest tokens; on the left, articles are left out
}

// aroundOf reads the words beside a value. Another value ends them.
func (f *filling) aroundOf(v *Value) (a around) {
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
				a.before = nil // "3 successes in 10 trials": the word is the number's before it
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

// cues scores the words around a value that speak of a parameter.
func (f *filling) cues(d *param, v *Value, a around) float64 {
	if d.form == Path && v.Kind >= Code {
		return f.placeScore(d, v, a)
	}
	score := d.near(a.before, 5, 4, 2.5)
	if v.Kind != Phrase && a.right.Value == nil && !rank.In("glue", a.right.Term) {
		score = max(score, d.near([]string{a.right.Term}, 4.2))
	}
	if (a.role != "of" || v.Kind != Number) && hasTerm(d.name, rank.Words("role", a.role)...) { // not: a radius of 3
		score += 3
	}
	if v.Kind == Quoted && (d.form == Path || d.form == Glob) && !strings.ContainsAny(v.Text, "./*") && score < 3.5 {
		return never // a path looks like one, or is said to be one
	}
	if v.Kind == Phrase && score < 5 {
		return f.phraseScore(v, a, score)
	}
	return score
}

// phraseScore scores plain words: they are a value only if a cue marks them as one.
func (f *filling) phraseScore(v *Value, a around, score float64) float64 {
	switch {
	case f.repeats(v):
		return score - 2
	case score >= 2, a.role != "":
		return score
	case len(f.Name) == 1 && len(a.before) > 0 && rank.Means(f.Name[0], a.before[0]):
		return 2 // echo hello
	}
	return never
}

// repeats reports whether plain words only repeat words of the tool.
func (f *filling) repeats(v *Value) bool {
	return v.Kind == Phrase && !slices.ContainsFunc(rank.Terms(v.Text), func(t string) bool { return !f.Says[t] && !rank.Stop(t) })
}

// placeScore scores words as a path: they are one only if they are said to be one, or are all that a question is about.
func (f *filling) placeScore(d *param, v *Value, a around) float64 {
	inside := a.left.Text == "of" || rank.In("inside", a.role) || a.right.names("folder") || a.left.names("folder")
	switch {
	case inside && d.folder:
		return 4
	case inside && (v.Kind == Phrase || a.left.Text != "of"):
		return never
	case a.left.Text == "file", v.Kind != Phrase && inside:
		return 3
	case a.left.Text == "is" && !f.repeats(v), v.Kind != Phrase && a.left.names("place"): // how big is X?
		return 2.5
	}
	return never
}

// names reports whether a token is of a class of words, in the singular.
func (t Token) names(class string) bool {
	return rank.In(class, t.Term) && !strings.HasSuffix(t.Text, "s")
}

// near weighs words near a value by how much of the parameter's name and description they are.
func (d *param) near(words []string, weights ...float64) float64 {
	best, matched := 0.0, 0.0
	for k, w := range words {
		if slices.ContainsFunc(d.name, func(t string) bool { return (len(t) > 1 || !rank.Stop(t)) && rank.Means(t, w) }) {
			best, matched = max(best, weights[k]), matched+1
		} else if !rank.Stop(w) && slices.Contains(d.said, w) {
			best = max(best, 0.45*weights[k])
		}
	}
	if matched > 0 {
		best *= 0.6 + 0.4*min(1, matched/float64(len(d.name)))
	}
	return best
}
