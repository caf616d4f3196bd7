package extract

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

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
	Score   float64  // how sure the values are
	Used    []bool   // by token: it is a value
	Implied []string // terms that values stand for: a path for a file or folder
}

// filler fills one input.
type filler struct {
	c        *Clause
	t        *catalog.Tool
	props    []property
	mentions []Mention // those of the clause, phrases and members of enums
	at       []int     // the token of each mention
	taken    []bool
	out      Filled
}

// Fill makes a tool's input of a clause.
func Fill(t *catalog.Tool, c *Clause) Filled {
	f := &filler{c: c, t: t, mentions: slices.Clone(c.Mentions), at: make([]int, len(c.Mentions))}
	f.out = Filled{Input: &strictjson.Object{}, Used: make([]bool, len(c.Tokens))}
	for i := range t.Props {
		f.props = append(f.props, propertyOf(&t.Props[i]))
	}
	for i, tok := range c.Tokens {
		if tok.Mention >= 0 {
			f.at[tok.Mention] = i
		}
	}
	for i, m := range c.Mentions {
		if m.Kind == Number && m.Unit != "" {
			f.mentions = append(f.mentions, Mention{Kind: Code, Start: m.End - len(m.Unit), End: m.End, Text: m.Unit, unit: true})
			f.at = append(f.at, f.at[i])
		}
	}
	f.choices()
	f.kindsOfFiles()
	f.booleans()
	f.phrases()
	f.taken = make([]bool, len(f.mentions))
	f.explicit()
	f.ranges()
	f.assign()
	f.finish()
	return f.out
}

// explicit takes name=value and JSON objects.
func (f *filler) explicit() {
	for i, m := range f.mentions {
		if m.Kind != Quoted && (strings.EqualFold(m.Text, f.t.GetId()) || strings.EqualFold(m.Text, f.t.GetName())) {
			f.take(i, 0)
		}
		switch m.Kind {
		case Pair:
			f.set(m.Key, strictjson.Quote(m.Text), i)
		case JSON:
			if doc, err := strictjson.ParseObject(m.Text); err == nil {
				for _, k := range doc.Keys() {
					raw, _ := doc.Get(k)
					f.set(k, raw, i)
				}
			}
		}
	}
}

// set gives a named property a value. A tool without a schema takes any.
func (f *filler) set(name, raw string, mention int) {
	if p := f.t.PropLike(name); p != nil {
		if v, ok := Coerce(p, raw); ok {
			f.out.Input.Set(p.Name, v)
			f.take(mention, 6)
		}
	} else if len(f.t.Props) == 0 && !f.t.Closed() {
		f.out.Input.Set(name, raw)
		f.take(mention, 6)
	}
}

func (f *filler) take(mention int, score float64) {
	f.taken[mention] = true
	f.out.Score += score
	m := f.mentions[mention]
	for i, tok := range f.c.Tokens {
		if tok.Start >= m.Start && tok.Start < m.End {
			f.out.Used[i] = true
		}
	}
}

// pair is a value that a property may take.
type pair struct {
	prop, mention int
	score         float64
}

// assign gives mentions to properties, the surest pairs first.
func (f *filler) assign() {
	var pairs []pair
	for i := range f.props {
		for j := range f.mentions {
			if score, ok := f.props[i].takes(&f.mentions[j]); ok && !f.out.Used[f.at[j]] && (f.mentions[j].Kind != Choice || f.mentions[j].Key == f.props[i].Name) {
				score += f.cues(&f.props[i], j)
				if f.props[i].Required {
					score += 0.3
				}
				if f.props[i].array && (f.mentions[j].list > 0 || f.mentions[j].Kind == Phrase) {
					score += 2
				}
				pairs = append(pairs, pair{i, j, score})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.score, a.score) })
	for _, p := range pairs {
		least := 2.0
		if f.props[p.prop].Required && f.onlyOne(p) {
			least = 0.5
		}
		if p.score >= least {
			f.give(p)
		}
	}
	f.inOrder()
}

// onlyOne reports whether no other free mention fits the property as well, and no other free required property the mention.
func (f *filler) onlyOne(p pair) bool {
	for j := range f.mentions {
		if j != p.mention && !f.taken[j] && f.mentions[j].Kind <= f.mentions[p.mention].Kind && f.mentions[j].Kind != Choice {
			if score, ok := f.props[p.prop].takes(&f.mentions[j]); ok && score+f.cues(&f.props[p.prop], j) > p.score-1 && !f.sameList(j, p.mention) {
				return false
			}
		}
	}
	for i := range f.props {
		if i != p.prop && f.props[i].Required && !f.out.Input.Has(f.props[i].Name) {
			if score, ok := f.props[i].takes(&f.mentions[p.mention]); ok && score >= 0 && f.mentions[p.mention].Kind != Choice {
				return false
			}
		}
	}
	return true
}

func (f *filler) sameList(i, j int) bool {
	return f.mentions[i].list > 0 && f.mentions[i].list == f.mentions[j].list
}

// inOrder gives the numbers, or the names, that are left to the required properties that are left, if there are as many of both.
func (f *filler) inOrder() {
	for _, kinds := range [][]Kind{{Number}, {Date}, {Quoted}, {Name, Code}} {
		var props, mentions []int
		for i := range f.props {
			if f.props[i].Required && !f.props[i].array && f.props[i].role != pathText && !f.out.Input.Has(f.props[i].Name) {
				if slices.ContainsFunc(f.mentions, func(m Mention) bool {
					score, ok := f.props[i].takes(&m)
					return ok && score >= 0 && slices.Contains(kinds, m.Kind)
				}) && f.props[i].role != globText {
					props = append(props, i)
				}
			}
		}
		for j := range f.mentions {
			if !f.taken[j] && slices.Contains(kinds, f.mentions[j].Kind) {
				mentions = append(mentions, j)
			}
		}
		if len(props) == len(mentions) {
			for k, i := range props {
				f.give(pair{i, mentions[k], 1})
			}
		}
	}
}

// give puts a mention into the input if both are free.
func (f *filler) give(p pair) {
	d, m := &f.props[p.prop], &f.mentions[p.mention]
	if f.taken[p.mention] || f.out.Input.Has(d.Name) || f.overlaps(m) {
		return
	}
	group := f.listOf(p.mention)
	each := d.role == pathText && d.Required && len(group) > 1 && !d.array
	switch {
	case each && p.mention != group[0]:
		return // the first of a list comes first
	case !d.array && !each:
		group = []int{p.mention}
	}
	values, ok := f.rawAll(d, group)
	if !ok {
		return
	}
	f.out.Input.Set(d.Name, values[0])
	if each {
		f.out.EachOf, f.out.Each = d.Name, values[1:]
	} else if d.array {
		f.out.Input.Set(d.Name, arrayOf(m, values))
	}
	for _, j := range group {
		f.take(j, p.score)
	}
	f.imply(d, p.mention)
}

// rawAll writes mentions as a property takes them.
func (f *filler) rawAll(d *property, group []int) (values []string, ok bool) {
	for _, j := range group {
		raw, ok := f.raw(d, &f.mentions[j])
		if !ok {
			return nil, false
		}
		values = append(values, raw)
	}
	return values, true
}

// arrayOf writes an array of a mention's values: one that is an array, a list in words, or several mentions.
func arrayOf(m *Mention, values []string) string {
	switch m.Kind {
	case JSON:
		return strictjson.Compact(m.Text)
	case Phrase:
		return strictjson.Array(splitList(m.Text))
	}
	return strictjson.Array(values)
}

// listOf returns the free mentions of the list that a mention is in, in the text's order.
func (f *filler) listOf(mention int) []int {
	group := []int{mention}
	for j := range f.mentions {
		if j != mention && f.sameList(j, mention) && !f.taken[j] && f.mentions[j].Key == f.mentions[mention].Key {
			group = append(group, j)
		}
	}
	slices.SortFunc(group, func(a, b int) int { return cmp.Compare(f.mentions[a].Start, f.mentions[b].Start) })
	return group
}

// imply notes what a value stands for.
func (f *filler) imply(d *property, mention int) {
	m, i := &f.mentions[mention], f.at[mention]
	switch {
	case isQuery(d):
		f.out.Implied = append(f.out.Implied, "search", "text", "content")
	case d.role != pathText:
	case strings.Contains(m.Text, ".") || m.Kind == Code:
		f.out.Implied = append(f.out.Implied, "path", "file")
	case i > 0 && inside[f.c.Tokens[i-1].Text] || strings.HasSuffix(m.Text, "/"):
		f.out.Implied = append(f.out.Implied, "path", "directori", "folder")
	default:
		f.out.Implied = append(f.out.Implied, "path")
	}
}

// overlaps reports whether a part of a mention is another property's value already.
func (f *filler) overlaps(m *Mention) bool {
	for j := range f.mentions {
		o := &f.mentions[j]
		if f.taken[j] && o.Start < m.End && m.Start < o.End && o.Kind != Number && m.Kind != Number {
			return true
		}
	}
	return false
}

// raw writes a mention as a property takes it.
func (f *filler) raw(d *property, m *Mention) (string, bool) {
	switch {
	case d.number && m.Kind == Number:
		n, ok := d.value(m)
		if n == m.Number && m.exact != "" && json.Valid([]byte(m.exact)) {
			return m.exact, ok
		}
		return strconv.FormatFloat(rounded(n), 'f', -1, 64), ok
	case d.number:
		return "", m.Kind == JSON
	case d.role == dateText:
		date, ok := isoDate(m.Text)
		return strictjson.Quote(date), ok
	case d.role == timeText && m.Kind == Time:
		at, ok := clock(m.Text)
		return strictjson.Quote(at), ok
	case m.Kind == Number && m.Unit != "":
		return strictjson.Quote(m.Unit), true
	}
	text := m.Text
	if code, ok := codes()[strings.ToLower(text)]; ok && hasTerm(d.said, "code", "iso") {
		text = code
	}
	return strictjson.Quote(text), true
}

// rounded keeps seven digits of a converted number.
func rounded(n float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 7, 64), 64)
	if err != nil || n == float64(int64(n)) {
		return n
	}
	return r
}

func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(strings.NewReplacer(" and ", ",", " or ", ",", "、", ",", "和", ",").Replace(text), ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, strictjson.Quote(part))
		}
	}
	return out
}

// finish says what is missing and what is left.
func (f *filler) finish() {
	for _, d := range f.props {
		switch {
		case !d.Required || f.out.Input.Has(d.Name):
		case d.Default != "":
			f.out.Input.Set(d.Name, d.Default)
		case len(d.enum) == 1 && !d.array:
			f.out.Input.Set(d.Name, strictjson.Quote(d.enum[0]))
		}
	}
	f.inFolder()
	f.out.Input = Ordered(f.t, f.out.Input)
	f.out.Missing = f.t.Missing(f.out.Input)
	for j := range f.mentions {
		if f.isLeft(j) {
			f.out.Left = append(f.out.Left, f.mentions[j].Text)
		}
	}
}

// isLeft reports whether a mention is a value that nothing took.
func (f *filler) isLeft(j int) bool {
	m := &f.mentions[j]
	return !f.taken[j] && m.Kind >= 0 && m.Kind < Phrase && !m.unit && !f.out.Used[f.at[j]] && !f.overlaps(m) && !f.explained(j)
}

// inFolder puts the folder before a file's name: notes.md in docs.
func (f *filler) inFolder() {
	for _, d := range f.props {
		raw, ok := f.out.Input.Get(d.Name)
		if d.role != pathText || !ok || strings.Contains(raw, "/") || !strings.Contains(raw, ".") {
			continue
		}
		for j, m := range f.mentions {
			if i := f.at[j]; !f.taken[j] && (m.Kind == Phrase || m.Kind == Path) && i > 0 && f.c.Tokens[i-1].Text == "in" && !strings.ContainsAny(m.Text, " *") {
				f.out.Input.Set(d.Name, strictjson.Quote(strings.TrimSuffix(m.Text, "/")+"/"+strictjson.Content(raw)))
				f.take(j, 2)
			}
		}
	}
}

// explained reports whether the tool's own words hold a mention: its id, or a name that it speaks of.
func (f *filler) explained(j int) bool {
	m := f.mentions[j]
	if strings.EqualFold(m.Text, f.t.GetId()) || strings.EqualFold(m.Text, f.t.GetName()) {
		return true
	}
	if m.unit || m.Kind != Name && m.Kind != Code {
		return false
	}
	own := rank.Terms(f.t.GetName() + " " + f.t.GetDescription())
	for _, term := range rank.Terms(m.Text) {
		if !slices.Contains(own, term) {
			return false
		}
	}
	return true
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
