// Package input fills, corrects and asks for the inputs of tools according to their schemas. It finds the values that a sentence names (numbers with
// units, dates, quoted texts, paths, names …) and assigns them to parameters by type, format, unit, name and description. It also merges a person's
// values into an input, and finds the properties that an error is about. It knows no particular tool and calls none.
package input

import (
	"slices"
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// Filled is a tool's input as far as a clause determines it.
type Filled struct {
	Input      *strictjson.Object
	Missing    []string // required properties without a value
	Unassigned []string // values of the clause that were given to no property
	Used       []bool   // by token: whether it is part of a used value or of the tool's name
	Implied    []string // terms that the values imply, such as file for a path
}

// filling fills one input.
type filling struct {
	*Params
	c      *Clause
	values []*Value // the values of the clause, and candidates
	out    Filled
}

// maxValues bounds the values of a clause that are assigned. A clause with more is not understood.
const maxValues = 64

// Fill makes the tool's input from a clause.
func (p *Params) Fill(c *Clause) Filled {
	n := min(len(c.Values), maxValues)
	f := &filling{Params: p, c: c, values: slices.Clone(c.Values[:n])}
	f.out = Filled{Input: &strictjson.Object{}, Used: make([]bool, len(c.Tokens))}
	f.addCandidates()
	f.assign()
	f.assignInOrder()
	f.out.Input = Ordered(p.Tool, f.out.Input)
	f.out.Missing = p.Missing(f.out.Input)
	for _, v := range append(f.values, c.Values[n:]...) {
		place := v.Kind == Phrase && v.From > 0 && rank.In("inside", c.Tokens[v.From-1].Term) // a file in that folder
		if (v.Kind < Phrase || place) && !f.out.Used[v.From] && !f.isOwn(v, Name, Code) {
			f.out.Unassigned = append(f.out.Unassigned, v.Text)
		}
	}
	return f.out
}

// isOpen reports whether a parameter has no value yet.
func (f *filling) isOpen(param int) bool { return !f.out.Input.Has(f.params[param].Name) }

// isFree reports whether no token of a value is used yet. Pairs may share the token of one object.
func (f *filling) isFree(v *Value) bool {
	return v.Kind == Pair || !slices.Contains(f.out.Used[v.From:v.To], true)
}

const (
	enough         = 2.0 // the score that a value needs
	enoughRequired = 0.5 // the score that a value needs for a required parameter
	never          = -9  // the score of a value that must not be used
)

// assign gives values to parameters, the surest first. A value that suits two parameters equally well waits until one of them has another value.
func (f *filling) assign() {
	scores := make([][]float64, len(f.values))
	for j, v := range f.values {
		around := f.neighboursOf(v)
		for i := range f.params {
			score, ok := f.takes(&f.params[i], v)
			if score += f.cueScore(&f.params[i], v, around); !ok {
				score = never
			} else if f.params[i].Required {
				score += 0.3
			}
			scores[j] = append(scores[j], score)
		}
	}
	for {
		param, value := f.surest(scores)
		if param < 0 {
			return
		}
		f.give(param, value)
		scores[value][param] = never
	}
}

// surest returns the open parameter and the free value that suit each other best. param is -1 if none suit well enough.
func (f *filling) surest(scores [][]float64) (param, value int) {
	param, best := -1, enoughRequired
	for j, v := range f.values {
		for i, score := range scores[j] {
			if score <= best || score < enough && !f.params[i].Required || !f.isOpen(i) || !f.isFree(v) {
				continue
			}
			tie := false // another open parameter is as good
			for k, other := range scores[j] {
				tie = tie || k != i && other == score && f.isOpen(k)
			}
			if !tie {
				param, value, best = i, j, score
			}
		}
	}
	return param, value
}

// assignInOrder gives the remaining values of a kind, in order, to the remaining required parameters if there are as many of them.
func (f *filling) assignInOrder() {
	for kind := range Phrase {
		var params, values []int
		for j, v := range f.values {
			if v.Kind == kind && f.isFree(v) {
				values = append(values, j)
			}
		}
		for i := range f.params {
			if d := &f.params[i]; len(values) > 0 && d.Required && d.form != Path && d.form != Glob && f.isOpen(i) {
				if score, ok := f.takes(d, f.values[values[0]]); ok && score >= 0 {
					params = append(params, i)
				}
			}
		}
		for k := 0; len(params) == len(values) && k < len(params); k++ {
			f.give(params[k], values[k])
		}
	}
}

// give puts a value into the input, together with the other values of its list if the parameter takes an array. It does nothing if one of the values does not fit.
func (f *filling) give(param, value int) {
	d, v := &f.params[param], f.values[value]
	var group []*Value
	var raws []string
	for _, o := range f.values {
		if o == v || d.item != d.Property && v.list != 0 && v.list == o.list {
			raw, ok := f.jsonOf(d, o)
			if !ok || !f.isFree(o) {
				return
			}
			group, raws = append(group, o), append(raws, raw)
		}
	}
	if d.item != d.Property && v.Kind != JSON && v.Kind != Pair {
		raws[0] = strictjson.Array(raws)
	}
	f.out.Input.Set(d.Name, raws[0])
	for _, o := range group {
		f.use(o)
	}
	implied := d.implied
	if d.form == Path && !strings.Contains(v.Text, ".") && v.Kind != Code {
		implied = []string{"path", "directori", "folder"}
	}
	f.out.Implied = append(f.out.Implied, implied...)
}

// use marks the tokens of a value as used.
func (f *filling) use(v *Value) {
	for i := v.From; i < v.To; i++ {
		f.out.Used[i] = true
	}
}

// jsonOf returns a value as JSON that a parameter takes; false if the value does not fit.
func (f *filling) jsonOf(d *param, v *Value) (string, bool) {
	text := v.Text
	switch {
	case v.Kind == Pair, v.Kind == JSON && d.Takes(strictjson.Kind(text)):
		return Coerce(d.Property, text)
	case d.form == Number && v.Kind == Number:
		text, _ = d.number(v)
		return Coerce(d.item, text)
	case d.form == v.Kind && (v.Kind == Date || v.Kind == Time):
		iso, ok := v.iso()
		return strictjson.Quote(iso), ok
	case hasTerm(d.descTerms, "code", "iso") && rank.Key("code", text) != "":
		text = rank.Key("code", text)
	}
	return Coerce(d.item, strictjson.Quote(text))
}

// isOwn reports whether a value is of one of the kinds and consists of the tool's own words and stop words.
func (f *filling) isOwn(v *Value, kinds ...Kind) bool {
	return slices.Contains(kinds, v.Kind) && !slices.ContainsFunc(rank.Terms(v.Text), func(t string) bool { return !f.Terms[t] && !rank.Stop(t) })
}

// Names reports whether a clause contains a tool's id, or a tool's name that is no plain word.
func (c *Clause) Names(t *commonv1.Tool) bool {
	return slices.ContainsFunc(c.Values, func(v *Value) bool { return isNameOf(v, t) })
}

func isNameOf(v *Value, t *commonv1.Tool) bool {
	return v.Kind != Quoted && (strings.EqualFold(v.Text, t.GetId()) || strings.EqualFold(v.Text, t.GetName()))
}

// Ordered puts the members of an input into the order of the tool's schema.
func Ordered(t *catalog.Tool, in *strictjson.Object) *strictjson.Object {
	out := &strictjson.Object{}
	for _, p := range t.Props {
		if v, ok := in.Get(p.Name); ok {
			out.Set(p.Name, v)
		}
	}
	for _, k := range in.Keys() {
		v, _ := in.Get(k)
		out.Set(k, v)
	}
	return out
}

// add adds a value unless there are too many.
func (f *filling) add(v Value) {
	if len(f.values) < 2*maxValues {
		f.values = append(f.values, &v)
	}
}

// addCandidates adds possible values for this tool: members of enums, flags, globs, and runs of plain words. The tool's own name is never a value.
func (f *filling) addCandidates() {
	for _, v := range f.values {
		if isNameOf(v, f.Tool.Tool) {
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
