package input

import (
	"slices"
	"strings"
	"unicode/utf8"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/rank"
)

func (f *filling) add(v Value) {
	if len(f.values) < 2*maxValues {
		f.values = append(f.values, &v)
	}
}

// candidates adds what may be a value of this tool: members of JSON objects, members of enums, flags, globs, and runs of plain words. A tool without
// a schema takes all pairs; no tool takes its own name.
func (f *filling) candidates() {
	for _, v := range slices.Clone(f.values) {
		if doc, err := strictjson.ParseObject(v.Text); v.Kind == JSON && err == nil {
			for _, k := range doc.Keys() {
				raw, _ := doc.Get(k)
				f.add(Value{Kind: Pair, From: v.From, To: v.To, Key: k, Text: raw})
			}
		}
	}
	for _, v := range f.values {
		if open := v.Kind == Pair && len(f.Props) == 0 && !f.Closed(); open || isNameOf(v, f.Tool) {
			f.use(v)
			if open {
				f.out.Input.Set(v.Key, v.Text)
			}
		}
	}
	for i := range f.params {
		for k := range f.c.Tokens {
			f.choices(i, k)
		}
	}
	f.phrases()
}

// choices adds the members of a parameter's enum, or its flag, that begin at a token, and a glob for a kind of files: "Go files".
func (f *filling) choices(param, k int) {
	d := &f.params[param]
	for _, m := range d.members {
		if n := f.choiceAt(m, k); n > 0 && (k == 0 || !rank.In("deny", f.c.Tokens[k-1].Term)) {
			v := Value{Kind: Choice, From: k, To: k + n, Text: m.text, Key: d.Name}
			if d.item != d.Property {
				v.list = -1 - param // all of them
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

// choiceAt returns how many tokens from k name a member of an enum: by its words, with words between them that say nothing, or by its code.
func (f *filling) choiceAt(m member, k int) (n int) {
	t := f.c.Tokens[k]
	if same := strings.EqualFold(t.Text, m.text) || rank.Key("code", t.Text) == m.text; same || t.Value != nil {
		isSwitch := k > 0 && rank.In("switch", f.c.Tokens[k-1].Term)
		if same && (t.Value == nil || t.Value.Kind != Quoted) && (isSwitch || !rank.In("glue", m.text)) { // "on" is a preposition, as a rule
			return 1
		}
		return 0
	}
	terms := m.parts
	for _, t := range f.c.Tokens[k:] {
		switch {
		case len(terms) > 0 && t.Term == terms[0]:
			terms = terms[1:]
		case n == 0 || !rank.Stop(t.Term):
			return 0
		}
		if n++; len(terms) == 0 {
			return n
		}
	}
	return 0
}

// phrases adds runs of plain words, without the words at their beginning that speak of the tool itself.
func (f *filling) phrases() {
	tokens := f.c.Tokens
	for from := 0; from < len(tokens); from++ {
		to := from
		for to < len(tokens) && f.plain(to) {
			to++
		}
		for from < to && f.ownWord(tokens[from]) {
			from++
		}
		if from < to {
			f.add(Value{Kind: Phrase, From: from, To: to, Text: f.c.Text[tokens[from].Start:tokens[to-1].End]})
			from = to
		}
	}
}

// ownWord reports whether a word is of the tool's name or names a parameter, or one with which any goal can begin.
func (f *filling) ownWord(t Token) bool {
	return rank.In("generic", t.Text) || rank.In("vague", t.Text) || rank.In("polite", t.Text) || meansAny(f.Name, t.Term) || slices.ContainsFunc(f.params, func(d param) bool {
		return len(t.Term) > 1 && meansAny(d.name, t.Term) || d.form == Path && rank.In("place", t.Term)
	})
}

// plain reports whether a token can be a part of a value that is neither quoted nor a name.
func (f *filling) plain(i int) bool {
	t := f.c.Tokens[i]
	for _, class := range []string{"deny", "compare", "limit", "empty", "glue", "seek", "stop"} {
		if rank.In(class, t.Term) {
			return false
		}
	}
	return t.Value == nil && (t.Text[0] < utf8.RuneSelf || rank.Synonyms(t.Term) == nil) && !strings.ContainsAny(t.Text, ",.;:?!()，。？！；") &&
		!slices.ContainsFunc(f.values, func(v *Value) bool { return v.Kind >= Choice && v.From <= i && i < v.To })
}
