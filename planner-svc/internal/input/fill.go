package input

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// Filled is a tool's input as far as a clause tells it.
type Filled struct {
	Input   *strictjson.Object
	Missing []string // required properties that were not found
	Left    []string // values of the clause that no property takes
	Each    []string // further values of the property EachOf: the call is made for each
	EachOf  string
	Used    []bool   // by token: it is a value
	Implied []string // terms that values stand for: a path for a file or folder
}

// filling fills one input.
type filling struct {
	*Params
	c      *Clause
	values []*Value // those of the clause, members of enums, flags, and phrases
	around []around // of each value
	taken  []bool
	out    Filled
}

// maxValues bounds the values of a clause that are looked at. A clause with more is not understood.
const maxValues = 64

// Fill makes the tool's input of a clause.
func (p *Params) Fill(c *Clause) Filled {
	f := &filling{Params: p, c: c, values: slices.Clone(c.Values[:min(len(c.Values), maxValues)])}
	f.out = Filled{Input: &strictjson.Object{}, Used: make([]bool, len(c.Tokens))}
	for _, v := range c.Values[len(f.values):] {
		f.out.Left = append(f.out.Left, v.Text)
	}
	f.pairs()
	f.choices()
	f.phrases()
	f.taken = make([]bool, len(f.values))
	for _, v := range f.values {
		f.around = append(f.around, f.aroundOf(v))
	}
	f.assign()
	f.inOrder()
	f.finish()
	return f.out
}

func (f *filling) add(v Value) {
	if len(f.values) < 2*maxValues {
		f.values = append(f.values, &v)
	}
}

// choices adds the members of enums and the flags that the clause names, and globs for kinds of files: "Go files".
func (f *filling) choices() {
	for i := range f.params {
		d := &f.params[i]
		for k := range f.c.Tokens {
			for _, m := range d.members {
				n := f.choiceAt(m, k)
				if n == 0 {
					continue
				}
				v := Value{Kind: Choice, From: k, To: k + n, Text: m.text, Key: d.Name}
				if d.array {
					v.list = -1 - i
				}
				if before := f.c.Tokens[max(0, k-1)]; d.flag && k > 0 && (rank.In("deny", before.Term) || before.Term == "no") {
					v.From, v.Text = k-1, "false"
				}
				f.add(v)
			}
			if glob := rank.Key("glob", f.c.Tokens[k].Text); d.form == Glob && glob != "" && k+1 < len(f.c.Tokens) && means("file", f.c.Tokens[k+1].Term) {
				f.add(Value{Kind: Glob, From: k, To: k + 2, Text: glob})
			}
		}
	}
}

// choiceAt returns how many tokens from k name a member of an enum: by its words, its unit or its code.
func (f *filling) choiceAt(m member, k int) int {
	t := f.c.Tokens[k]
	same := strings.EqualFold(t.Text, m.text) || rank.Key("code", t.Text) == m.text
	switch {
	case t.Value != nil && t.Value.Kind == Number:
		ours, ok := unitOf(m.text)
		theirs, _ := unitOf(t.Value.Unit)
		same = ok && ours == theirs
	case rank.In("glue", m.text):
		same = k > 0 && same && rank.In("switch", f.c.Tokens[k-1].Term) // "on" is a preposition, as a rule
	case t.Value == nil && !same:
		return f.wordsAt(m.parts, k)
	}
	if same && (t.Value == nil || t.Value.Kind != Quoted) {
		return 1
	}
	return 0
}

// wordsAt returns how many tokens from k some terms are, with words between them that say nothing: including an image.
func (f *filling) wordsAt(terms []string, k int) (n int) {
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

// phrases adds runs of plain words, without the words that speak of the tool itself.
func (f *filling) phrases() {
	lists := slices.ContainsFunc(f.params, func(d param) bool { return d.array && !d.number && len(d.members) == 0 })
	tokens := f.c.Tokens
	for i := 0; i < len(tokens); i++ {
		if !f.plain(i) {
			continue
		}
		j := i + 1
		for j < len(tokens) && (f.plain(j) || lists && (tokens[j].Text == "," || tokens[j].Text == "and") && f.plain(j+1)) {
			j++
		}
		from, to := i, j
		for from < to && f.ownWord(tokens[from]) {
			from++
		}
		for to > from+1 && rank.In("place", tokens[to-1].Term) {
			to--
		}
		if from < to {
			f.add(Value{Kind: Phrase, From: from, To: to, Text: f.c.Text[tokens[from].Start:tokens[to-1].End]})
		}
		i = j
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
	if i >= len(f.c.Tokens) {
		return false
	}
	t := f.c.Tokens[i]
	switch {
	case t.Value != nil, narrows(t.Term), rank.In("empty", t.Term), rank.In("glue", t.Term), rank.In("seek", t.Term), rank.Stop(t.Term), strings.ContainsAny(t.Text, ",.;:?!()，。？！；"):
		return false
	case t.Text[0] >= utf8.RuneSelf && rank.Synonyms(t.Term) != nil:
		return false
	}
	return !slices.ContainsFunc(f.values, func(v *Value) bool { return v.Kind >= Choice && v.From <= i && i < v.To })
}

// narrows reports whether a term narrows, denies, compares or sums up what is asked for.
func narrows(term string) bool {
	return rank.In("deny", term) || rank.In("compare", term) || rank.In("limit", term)
}

// pairs adds what JSON objects name, as pairs. A tool without a schema takes all pairs; no tool takes its own name.
func (f *filling) pairs() {
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
}

// use marks the tokens of a value.
func (f *filling) use(v *Value) {
	for i := v.From; i < v.To; i++ {
		f.out.Used[i] = true
	}
}

// pair is a value that a parameter may take.
type pair struct {
	param, value int
	score        float64
}

// enough is the score that a value needs, and onlyOne that of the only required parameter that takes it.
const (
	enough  = 2.0
	onlyOne = 0.5
)

// assign gives values to parameters, the surest pairs first. A value that two parameters are as good for waits until one of them has another.
func (f *filling) assign() {
	var pairs []pair
	of := make([][]pair, len(f.values)) // by value
	for j, v := range f.values {
		for i := range f.params {
			if score, ok := f.takes(&f.params[i], v); ok && !f.out.Used[v.From] {
				score += f.cues(&f.params[i], j)
				if f.params[i].Required {
					score += 0.3
				}
				of[j] = append(of[j], pair{i, j, score})
			}
		}
		pairs = append(pairs, of[j]...)
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.score, a.score) })
	for k := 0; k < len(pairs); k++ {
		p := pairs[k]
		tie, wanted := f.rivals(p, of[p.value])
		if (p.score >= enough && !tie || p.score >= onlyOne && f.params[p.param].Required && !wanted) && f.give(p) {
			k = -1
		}
	}
}

// rivals reports whether another free parameter is as good for a pair's value, and whether one that is required takes it.
func (f *filling) rivals(p pair, all []pair) (tie, wanted bool) {
	for _, o := range all {
		if o.param != p.param && !f.out.Input.Has(f.params[o.param].Name) {
			tie, wanted = tie || o.score == p.score, wanted || o.score > 0 && f.params[o.param].Required
		}
	}
	return tie, wanted
}

// inOrder gives the values of a kind that are left to the required parameters that are left, if there are as many of both.
func (f *filling) inOrder() {
	for _, kinds := range [][]Kind{{Number}, {Date}, {Quoted}, {Name, Code}} {
		var params, values []int
		for j, v := range f.values {
			if !f.taken[j] && slices.Contains(kinds, v.Kind) {
				values = append(values, j)
			}
		}
		for i := range f.params {
			d := &f.params[i]
			if d.Required && !d.array && d.form != Path && d.form != Glob && !f.out.Input.Has(d.Name) && slices.ContainsFunc(values, func(j int) bool {
				score, ok := f.takes(d, f.values[j])
				return ok && score >= 0
			}) {
				params = append(params, i)
			}
		}
		if len(params) == len(values) {
			for k, i := range params {
				f.give(pair{i, values[k], 0})
			}
		}
	}
}

// give puts a value into the input if it and the parameter are free: with the others of its list if the parameter takes an array, or for a call each
// if it takes a path.
func (f *filling) give(p pair) bool {
	d, v := &f.params[p.param], f.values[p.value]
	if f.taken[p.value] || f.out.Input.Has(d.Name) || f.overlaps(v) {
		return false
	}
	group := f.listOf(p.value)
	each := d.form == Path && d.Required && len(group) > 1 && !d.array
	switch {
	case each && p.value != group[0]:
		return false // the first of a list comes first
	case !d.array && !each:
		group = []int{p.value}
	}
	values, ok := f.rawAll(d, group)
	if !ok {
		return false
	}
	f.out.Input.Set(d.Name, values[0])
	if each {
		f.out.EachOf, f.out.Each = d.Name, values[1:]
	} else if d.array {
		f.out.Input.Set(d.Name, arrayOf(v, values))
	}
	for _, j := range group {
		f.taken[j] = true
		f.use(f.values[j])
	}
	f.imply(d, v)
	return true
}

// rawAll writes values as a parameter takes them.
func (f *filling) rawAll(d *param, group []int) (raws []string, ok bool) {
	for _, j := range group {
		raw, ok := f.raw(d, f.values[j])
		if !ok {
			return nil, false
		}
		raws = append(raws, raw)
	}
	return raws, true
}

// arrayOf writes an array: one that a value is, a list in words, or several values.
func arrayOf(v *Value, raws []string) string {
	switch v.Kind {
	case JSON:
		return strictjson.Compact(v.Text)
	case Phrase:
		raws = nil
		for part := range strings.SplitSeq(strings.NewReplacer(" and ", ",", " or ", ",", "、", ",", "和", ",").Replace(v.Text), ",") {
			raws = append(raws, strictjson.Quote(strings.TrimSpace(part)))
		}
	}
	return strictjson.Array(raws)
}

// listOf returns the free values of the list that a value is in, in the text's order.
func (f *filling) listOf(value int) []int {
	group := []int{value}
	for j, v := range f.values {
		if j != value && v.list != 0 && v.list == f.values[value].list && !f.taken[j] {
			group = append(group, j)
		}
	}
	slices.SortFunc(group, func(a, b int) int { return cmp.Compare(f.values[a].From, f.values[b].From) })
	return group
}

// imply notes what a value stands for.
func (f *filling) imply(d *param, v *Value) {
	switch {
	case d.query:
		f.out.Implied = append(f.out.Implied, "search", "text", "content")
	case d.form != Path:
	case strings.Contains(v.Text, ".") || v.Kind == Code:
		f.out.Implied = append(f.out.Implied, "path", "file")
	case v.From > 0 && rank.In("inside", f.c.Tokens[v.From-1].Term) || strings.HasSuffix(v.Text, "/"):
		f.out.Implied = append(f.out.Implied, "path", "directori", "folder")
	default:
		f.out.Implied = append(f.out.Implied, "path")
	}
}

// overlaps reports whether a part of a value is another property's already. A number shares its token with its unit.
func (f *filling) overlaps(v *Value) bool {
	for j, o := range f.values {
		if f.taken[j] && o.From < v.To && v.From < o.To && o.Kind != Number && v.Kind != Number && v.Kind != Pair {
			return true
		}
	}
	return false
}

// raw writes a value as a parameter takes it.
func (f *filling) raw(d *param, v *Value) (string, bool) {
	text, ok := v.Text, true
	switch {
	case v.Kind == Pair:
		return Coerce(d.Property, text)
	case v.Kind == Choice && d.flag:
		return text, true
	case d.number && v.Kind == Number:
		n, ok := d.valueOf(v)
		if n == v.Number && json.Valid([]byte(v.exact)) {
			return v.exact, ok
		}
		return strconv.FormatFloat(n, 'f', -1, 64), ok
	case d.number:
		return "", v.Kind == JSON
	case d.form == Date:
		text, ok = isoDate(text)
	case d.form == Time && v.Kind == Time:
		text, ok = clock(text)
	case hasTerm(d.said, "code", "iso"):
		text = cmp.Or(rank.Key("code", text), text)
	}
	return strictjson.Quote(text), ok
}

// finish says what is missing and what is left.
func (f *filling) finish() {
	for _, d := range f.params {
		switch {
		case !d.Required || f.out.Input.Has(d.Name):
		case d.Default != "":
			f.out.Input.Set(d.Name, d.Default)
		case len(d.members) == 1 && !d.array:
			f.out.Input.Set(d.Name, strictjson.Quote(d.members[0].text))
		}
	}
	f.inFolder()
	f.out.Input = Ordered(f.Tool, f.out.Input)
	f.out.Missing = f.Missing(f.out.Input)
	for j, v := range f.values {
		if !f.taken[j] && v.Kind < Unit && !f.out.Used[v.From] && !f.overlaps(v) && !f.isOwn(v) {
			f.out.Left = append(f.out.Left, v.Text)
		}
	}
}

// inFolder puts the folder before a file's name: notes.md in docs.
func (f *filling) inFolder() {
	for _, d := range f.params {
		raw, ok := f.out.Input.Get(d.Name)
		if d.form != Path || !ok || strings.Contains(raw, "/") || !strings.Contains(raw, ".") {
			continue
		}
		for j, v := range f.values {
			if !f.taken[j] && (v.Kind == Phrase || v.Kind == Path) && v.From > 0 && f.c.Tokens[v.From-1].Text == "in" && !strings.ContainsAny(v.Text, " *") {
				f.out.Input.Set(d.Name, strictjson.Quote(strings.TrimSuffix(v.Text, "/")+"/"+strictjson.Content(raw)))
				f.use(v)
			}
		}
	}
}

// isOwn reports whether a name or code consists of the tool's own words.
func (f *filling) isOwn(v *Value) bool {
	return (v.Kind == Name || v.Kind == Code) &&
		!slices.ContainsFunc(rank.Terms(v.Text), func(t string) bool { return !slices.Contains(f.Name, t) && !slices.Contains(f.about, t) })
}

// Names reports whether a clause names a tool by its id, or by a name that is no plain word.
func (c *Clause) Names(t *catalog.Tool) bool {
	return slices.ContainsFunc(c.Values, func(v *Value) bool { return isNameOf(v, t) })
}

func isNameOf(v *Value, t *catalog.Tool) bool {
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
