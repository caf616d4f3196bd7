package input

import (
	"slices"
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/rank"
)

// add adds a value unless there are too many.
func (f *filling) add(v Value) {
	if len(f.values) < 2*maxValues {
		f.values = append(f.values, &v)
	}
}

// addCandidates adds possible values for this tool: members of enums, flags, globs, and runs of plain words. The tool's own name is never a value.
func (f *filling) addCandidates() {
	for _, v := range f.values {
		if isNameOf(v, f.Tool) {
			f.use(v)
		}
	}
	for i := range f.params {
		for k := range f.c.Tokens {
			f.addChoices(i, k)
		}
	}
	f.addPhrases()
}

// addChoices adds the members of a parameter's enum, or its flag, that begin at a token, and a glob for a kind of files: "Go files".
func (f *filling) addChoices(param, k int) {
	d := &f.params[param]
	for _, m := range d.members {
		if n := f.choiceAt(m, k); n > 0 {
			v := Value{Kind: Choice, From: k, To: k + n, Text: m.text, Key: d.Name}
			if d.item != d.Property {
				v.list = -1 - param // an array takes all members that are named
			}
			f.add(v)
		}
	}
	tokens := f.c.Tokens[k:]
	if d.form != Glob || len(tokens) < 2 || !rank.Means("file", tokens[1].Term) {
		return
	}
	if glob := rank.Key("glob", tokens[0].Text); glob != "" {
		f.add(Value{Kind: Glob, From: k, To: k + 2, Text: glob})
	}
}

// choiceAt returns how many tokens from k name a member of an enum: by its words, possibly with stop words between them, or by its code.
func (f *filling) choiceAt(m member, k int) (n int) {
	t, parts := f.c.Tokens[k], m.parts
	same := strings.EqualFold(t.Text, m.text) || rank.Key("code", t.Text) == m.text
	switch {
	case t.Value != nil && (!same || t.Value.Kind == Quoted):
		return 0
	case same && !rank.In("glue", m.text): // "on" is a preposition
		return 1
	}
	for _, t := range f.c.Tokens[k:] {
		if len(parts) > 0 && t.Term == parts[0] {
			parts = parts[1:]
		} else if n == 0 || !rank.Stop(t.Term) {
			return 0
		}
		if n++; len(parts) == 0 {
			return n
		}
	}
	return 0
}

// addPhrases adds runs of plain words, without leading words that name the tool or a parameter.
func (f *filling) addPhrases() {
	tokens := f.c.Tokens
	for from := 0; from < len(tokens); from++ {
		to := from
		for to < len(tokens) && f.isPlain(to) {
			to++
		}
		for from < to && f.isOwnWord(tokens[from]) {
			from++
		}
		if from < to {
			f.add(Value{Kind: Phrase, From: from, To: to, Text: f.c.Text[tokens[from].Start:tokens[to-1].End]})
			from = to
		}
	}
}

// isOwnWord reports whether a word names the tool or a parameter, or could begin any goal.
func (f *filling) isOwnWord(t Token) bool {
	return rank.In("generic", t.Text) || rank.In("vague", t.Text) || rank.In("polite", t.Text) || meansAny(f.NameTerms, t.Term) || slices.ContainsFunc(f.params, func(d param) bool {
		return len(t.Term) > 1 && meansAny(d.nameTerms, t.Term) || d.form == Path && rank.In("place", t.Term)
	})
}

// isPlain reports whether a token can be a part of a Phrase.
func (f *filling) isPlain(i int) bool {
	t := f.c.Tokens[i]
	for _, class := range []string{"deny", "compare", "limit", "empty", "glue", "seek", "stop"} {
		if rank.In(class, t.Term) {
			return false
		}
	}
	return t.Value == nil && (t.Text[0] < utf8.RuneSelf || rank.Synonyms(t.Term) == nil) && !strings.ContainsAny(t.Text, ",.;:?!()，。？！；") &&
		!slices.ContainsFunc(f.values, func(v *Value) bool { return v.Kind >= Choice && v.From <= i && i < v.To })
}
