package input

import (
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/rank"
)

// around is what stands beside a value.
type around struct {
	before      []string // words before it, the nearest first
	after       []string // words right behind it
	role        string   // the nearest word before it that says what it is for: "from"
	left, right Token    // the nearest tokens; on the left, articles are left out
}

// aroundOf reads what stands beside a value.
func (f *filling) aroundOf(v *Value) (a around) {
	tokens := f.c.Tokens
	a.before, a.role = f.wordsBefore(v)
	for i := v.From - 1; i >= 0; i-- {
		if a.left = tokens[i]; !rank.In("article", a.left.Text) {
			break
		}
	}
	for i := v.To; i < min(len(tokens), v.To+2); i++ {
		if t := tokens[i]; t.Value != nil || rank.In("glue", t.Term) || v.Kind == Phrase || i == v.To && rank.Stop(t.Term) {
			break
		}
		a.after = append(a.after, tokens[i].Term)
	}
	if v.To < len(tokens) {
		a.right = tokens[v.To]
	}
	return a
}

// wordsBefore returns up to three words before a value, and its role. Another value or a punctuation mark ends them.
func (f *filling) wordsBefore(v *Value) (before []string, role string) {
	tokens := f.c.Tokens
	for i := v.From - 1; i >= 0 && v.From-i < 8 && len(before) < 3; i-- {
		t := tokens[i]
		if t.Value != nil || strings.Contains(",.;?，。？", t.Text) {
			break
		}
		if len(before) == 0 && role == "" && rank.Words("role", t.Term) != nil {
			role = t.Term
		}
		if rank.In("glue", t.Term) {
			continue
		}
		if len(before) == 0 && i < v.From-1 && i > 0 && tokens[i-1].Value != nil && tokens[i-1].Value.Kind == Number {
			break // "3 successes in 10 trials": the word is the number's before it
		}
		before = append(before, t.Term)
	}
	return before, role
}

// never is a score that no value gets above what it needs.
const never = -9

// cues scores the words around a value that speak of a parameter.
func (f *filling) cues(d *param, j int) float64 {
	v, a := f.values[j], f.around[j]
	plain := v.Kind == Name || v.Kind == Phrase
	if d.form == Path && (plain || v.Kind == Code) {
		return f.placeScore(d, j)
	}
	score := max(d.near(a.before, 5, 4, 2.5), d.near(a.after, 4.2, 3))
	if own := rank.Terms(v.Text); plain && len(own) > 1 && means(d.name[len(d.name)-1], own[len(own)-1]) {
		score = max(score, 4) // living room
	}
	if a.role != "of" || plain { // not: a radius of 3
		score += d.roleScore(a.role)
	}
	switch v.Kind {
	case Quoted:
		return d.quotedScore(v, score)
	case Phrase:
		return f.phraseScore(j, score)
	case Number:
		if score == 0 && f.counts(d, a.after) {
			return 3
		}
	}
	return score
}

// counts reports whether a number stands before a word of the tool's, "5 songs", and the parameter bounds how many there are.
func (f *filling) counts(d *param, after []string) bool {
	return len(after) > 0 && rank.In("count", d.name[len(d.name)-1]) && (slices.Contains(f.Name, after[0]) || slices.Contains(f.about, after[0]))
}

// quotedScore prefers texts and titles for quoted values, and takes one as a path only if it looks like one or is said to be one.
func (d *param) quotedScore(v *Value, score float64) float64 {
	switch {
	case (d.form == Path || d.form == Glob) && !strings.ContainsAny(v.Text, "./*") && score < 3.5:
		return never
	case slices.ContainsFunc(d.name, func(term string) bool { return rank.In("text", term) }) || slices.Contains(d.said, "titl"):
		return score + 1
	}
	return score
}

// phraseScore takes plain words only if something says that they are a value.
func (f *filling) phraseScore(j int, score float64) float64 {
	a := f.around[j]
	switch {
	case score < 5 && f.repeats(f.values[j]):
		return score - 2
	case a.role != "" || score >= 2:
		return score
	case len(a.before) > 0 && len(f.Name) == 1 && means(f.Name[0], a.before[0]):
		return 2 // echo hello
	}
	return never
}

// near weighs words near a value by how much of the parameter's name and description they are.
func (d *param) near(words []string, weights ...float64) float64 {
	best, matched := 0.0, 0
	for k, w := range words {
		switch {
		case slices.ContainsFunc(d.name, func(t string) bool { return (len(t) > 1 || !rank.Stop(t)) && means(t, w) }):
			best, matched = max(best, weights[k]), matched+1
		case !rank.Stop(w) && slices.Contains(d.said, w):
			best = max(best, 0.45*weights[k])
		}
	}
	if matched > 0 && len(d.name) > 1 {
		best *= 0.6 + 0.4*float64(matched)/float64(len(d.name))
	}
	return best
}

// roleScore scores the word before a value that says what it is for.
func (d *param) roleScore(role string) float64 {
	terms := rank.Words("role", role)
	switch {
	case hasTerm(d.name, terms...):
		return 3
	case rank.In("compare", role):
		return never // the last 5 lines
	case hasTerm(d.said, terms...) && !rank.In("seek", role):
		return 1.5
	}
	return 0
}

// repeats reports whether a phrase only repeats what the tool's description says.
func (f *filling) repeats(v *Value) bool {
	return !slices.ContainsFunc(rank.Terms(v.Text), func(t string) bool { return !slices.Contains(f.about, t) && !rank.Stop(t) })
}

// placeScore scores words as a path: they are one only if they are said to be one.
func (f *filling) placeScore(d *param, j int) float64 {
	v, a := f.values[j], f.around[j]
	folder, read := a.isFolder(), singular(a.left, "place")
	switch {
	case strings.Contains(v.Text, " "), folder && !d.folder && (v.Kind == Phrase || a.left.Text != "of"):
		return never
	case folder && d.folder:
		return 4
	case a.left.Text == "file", v.Kind != Phrase && (folder || read || a.isSubject()):
		return 3
	case read && d.folder && !f.repeats(v):
		return 2.5
	}
	return never
}

func singular(t Token, set string) bool {
	return rank.In(set, t.Term) && !strings.HasSuffix(t.Text, "s")
}

// isFolder reports whether the words beside a name say that it is a folder's.
func (a *around) isFolder() bool {
	return singular(a.right, "folder") || singular(a.left, "folder") || a.left.Text == "of" || rank.In("inside", a.role)
}

// isSubject reports whether a value is all that a question is about: how big is X?
func (a *around) isSubject() bool {
	return a.right.Text == "is" || a.left.Text == "is" && (a.right.Text == "" || a.right.Text == "?")
}
