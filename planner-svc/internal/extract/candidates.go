package extract

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// choices adds the members of enums that the clause names, as mentions.
func (f *filler) choices() {
	for i := range f.props {
		d := &f.props[i]
		for _, value := range d.enum {
			for k, tok := range f.c.Tokens {
				n := f.choiceAt(value, k)
				if n == 0 {
					continue
				}
				if glue[value] && k > 0 {
					f.out.Used[k-1] = true // turn on
				}
				m := Mention{Kind: Choice, Start: tok.Start, End: f.endOf(k + n - 1), Text: value, Key: d.Name}
				if d.array {
					m.list = firstChoiceList + i
				}
				f.mentions, f.at = append(f.mentions, m), append(f.at, k)
			}
		}
	}
}

// firstChoiceList numbers the lists of members of enums; those of a clause have lower numbers.
const firstChoiceList = 1000

// endOf returns where a token ends.
func (f *filler) endOf(token int) int {
	t := f.c.Tokens[token]
	if t.Mention >= 0 {
		return f.c.Mentions[t.Mention].End
	}
	return min(t.Start+len(t.Text), len(f.c.Text))
}

// choiceAt returns how many tokens from k name a member of an enum.
func (f *filler) choiceAt(value string, k int) int {
	tok := f.c.Tokens[k]
	switch {
	case tok.Mention >= 0 && isChoice(&f.c.Mentions[tok.Mention], value), tok.Mention < 0 && codes()[tok.Text] == value:
		return 1
	case tok.Mention >= 0:
		return 0
	}
	parts := catalog.NameParts(value)
	if k+len(parts) > len(f.c.Tokens) {
		return 0
	}
	for n, part := range parts {
		if t := f.c.Tokens[k+n]; t.Text != part && (t.Term != rank.Stem(part) || len(part) < 3) {
			return 0
		}
	}
	if glue[value] && (k == 0 || !slices.Contains([]string{"turn", "switch", "set", "toggl"}, f.c.Tokens[k-1].Term)) {
		return 0 // "on" is a preposition, as a rule
	}
	return len(parts)
}

// isChoice reports whether a mention is a member of an enum: by itself, by its unit or by its code.
func isChoice(m *Mention, value string) bool {
	unit := units()[strings.ToLower(m.Unit)].name
	switch m.Kind {
	case Quoted:
		return false
	case Number:
		return unit != "" && unit == units()[strings.ToLower(value)].name
	case Name:
		return codes()[strings.ToLower(m.Text)] == value || strings.EqualFold(m.Text, value)
	}
	return strings.EqualFold(m.Text, value)
}

// phrases adds runs of plain words as mentions, without the words that speak of the tool itself.
func (f *filler) phrases() {
	lists := slices.ContainsFunc(f.props, func(d property) bool { return d.array && !d.number && len(d.enum) == 0 })
	for i := 0; i < len(f.c.Tokens); i++ {
		if !f.plain(i) {
			continue
		}
		j := i + 1
		for j < len(f.c.Tokens) && (f.plain(j) || lists && (f.c.Tokens[j].Text == "," || f.c.Tokens[j].Text == "and") && f.plain(j+1)) {
			j++
		}
		if from, to := f.trim(i, j); from < to {
			start, end := f.c.Tokens[from].Start, f.endOf(to-1)
			f.mentions, f.at = append(f.mentions, Mention{Kind: Phrase, Start: start, End: end, Text: f.c.Text[start:end]}), append(f.at, from)
		}
		i = j
	}
}

// trim leaves out the words at the ends of a run that speak of the tool.
func (f *filler) trim(from, to int) (int, int) {
	name := rank.Terms(f.t.GetName())
	own := func(t Token) bool {
		return slices.ContainsFunc(name, func(o string) bool { return means(o, t.Term) })
	}
	for from < to && (own(f.c.Tokens[from]) || neutral[f.c.Tokens[from].Text] || f.ofProperty(f.c.Tokens[from])) {
		from++
	}
	for to > from+1 && (own(f.c.Tokens[to-1]) && !neutral[f.c.Tokens[to-1].Text] && !f.placeName(to-1) || slices.Contains(placeOf, f.c.Tokens[to-1].Term)) {
		to--
	}
	return from, to
}

// ofProperty reports whether a word names a property.
func (f *filler) ofProperty(t Token) bool {
	return slices.ContainsFunc(f.props, func(d property) bool {
		return slices.ContainsFunc(d.terms, func(o string) bool { return means(o, t.Term) && len(o) > 1 }) || d.role == pathText && slices.Contains(placeOf, t.Term)
	})
}

// plain reports whether a token can be a part of a value that is neither quoted nor a name.
func (f *filler) plain(i int) bool {
	if i >= len(f.c.Tokens) {
		return false
	}
	t := f.c.Tokens[i]
	switch {
	case t.Mention >= 0, f.out.Used[i], Limits[t.Term], empty[t.Text], glue[t.Text], rank.Stop(t.Term), slices.Contains(lookFor, t.Term):
		return false
	case t.Text[0] >= utf8.RuneSelf && len(rank.Synonyms(t.Term)) > 0, strings.ContainsAny(t.Text, ",.;:?!()，。？！；"):
		return false
	}
	return !slices.ContainsFunc(f.mentions, func(m Mention) bool { return m.Kind == Choice && m.Start <= t.Start && t.Start < m.End })
}

// placeName reports whether a word belongs to a name although it is the tool's or a property's: the room of "living room".
func (f *filler) placeName(i int) bool {
	return slices.ContainsFunc(f.props, func(d property) bool { return !d.number && d.terms[len(d.terms)-1] == f.c.Tokens[i].Term })
}

// Limits are stems of words that narrow, deny, compare or sum up what is asked for. They are never part of a value: a tool that does not know
// them would answer another question.
var Limits = stems("not never without except excluding no none neither nor instead larger bigger greater smaller less fewer more older newer longer shorter before after since until over under above below " +
	"most least largest biggest smallest longest shortest oldest newest latest recently recent average mean median total percentage per every each only tomorrow today yesterday next last ago")

func stems(list string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(list) {
		m[rank.Stem(w)] = true
	}
	return m
}

// empty are words that name nothing in particular.
var empty = wordSet("named", "called", "titled", "labeled", "all", "everything", "every", "each", "whole", "entire", "matching", "root", "current", "other", "some", "any", "files", "file", "folder", "directory")

// neutral are words with which goals are said and that tools have in common.
var neutral = wordSet("get", "find", "show", "tell", "give", "calculate", "compute", "determine", "look", "want", "need", "know", "let", "see", "list", "search", "work", "estimate", "check", "return", "use", "call", "display", "fetch", "retrieve", "provide", "help")

// ranges gives 10-20, and "10 to 20" and "first 20" of a noun, to the properties that name the noun and an end.
func (f *filler) ranges() {
	var ends [2]*property
	for i := range f.props {
		for side, words := range [2][]string{{"start", "from", "begin"}, {"end", "to", "until"}} {
			if d := &f.props[i]; d.number && len(d.terms) > 1 && hasTerm(d.terms, words...) && ends[side] == nil {
				ends[side] = d
			}
		}
	}
	if ends[0] == nil || ends[1] == nil {
		return
	}
	ends[0].end, ends[1].end = true, true
	for _, at := range lineRange.FindAllStringSubmatchIndex(f.c.Text, -1) {
		m := lineRange.FindStringSubmatch(f.c.Text[at[0]:at[1]])
		noun := rank.Stem(strings.ToLower(m[1] + m[5]))
		first, err1 := strconv.Atoi(cmp.Or(m[2], "1"))
		last, err2 := strconv.Atoi(m[3] + m[4] + m[6])
		if err1 != nil || err2 != nil || first > last || noun != "" && !slices.ContainsFunc(ends[0].terms, func(t string) bool { return means(t, noun) }) {
			continue
		}
		f.out.Input.Set(ends[0].Name, strconv.Itoa(first))
		f.out.Input.Set(ends[1].Name, strconv.Itoa(last))
		f.takeWithin(at[0], at[1])
	}
}

// takeWithin takes all mentions and tokens of a part of the text.
func (f *filler) takeWithin(start, end int) {
	for j, m := range f.mentions {
		if m.Start >= start && m.End <= end+1 {
			f.take(j, 5)
		}
	}
	for i, tok := range f.c.Tokens {
		f.out.Used[i] = f.out.Used[i] || tok.Start >= start && tok.Start < end
	}
}

var lineRange = regexp.MustCompile(`(?i)\b(line)s? (\d+) ?(?:-|–|to|through) ?(\d+)|\bfirst (\d+) (line)s?|前 ?(\d+) ?行`)

// kindsOfFiles fills a glob from words such as "Go files".
func (f *filler) kindsOfFiles() {
	for i := range f.props {
		d := &f.props[i]
		if d.role != globText || f.out.Input.Has(d.Name) {
			continue
		}
		for k, tok := range f.c.Tokens[:max(0, len(f.c.Tokens)-1)] {
			next := f.c.Tokens[k+1].Term
			if glob, ok := kinds()[tok.Text]; ok && means("file", next) {
				f.out.Input.Set(d.Name, `"`+glob+`"`)
				f.out.Used[k], f.out.Used[k+1] = true, true
				f.out.Score += 4
			}
		}
	}
}

// booleans sets flags whose words the clause has, and unsets those that it denies.
func (f *filler) booleans() {
	for i := range f.props {
		d := &f.props[i]
		if !d.Takes("boolean") || f.out.Input.Has(d.Name) {
			continue
		}
		at, ok := f.flagAt(d)
		if !ok {
			continue
		}
		f.out.Input.Set(d.Name, "true")
		if at > 0 && slices.Contains([]string{"not", "without", "no"}, f.c.Tokens[at-1].Text) {
			f.out.Input.Set(d.Name, "false")
			f.out.Used[at-1] = true
		}
		f.out.Used[at] = true
		f.out.Score++
	}
}

// flagAt returns where the clause names a flag: by all words of its name, or by two neighbours of its description's first sentence.
func (f *filler) flagAt(d *property) (at int, ok bool) {
	at, ok = -1, true
	for _, term := range d.terms {
		k := slices.IndexFunc(f.c.Tokens, func(t Token) bool { return t.Mention < 0 && t.Term == term })
		at, ok = max(at, k), ok && (k >= 0 || slices.Contains([]string{"is", "use", "enabl", "onli"}, term))
	}
	if ok && at >= 0 {
		return at, true
	}
	sentence, _, _ := strings.Cut(d.Description, ". ")
	said := rank.Terms(sentence)
	for k := range len(f.c.Tokens) - 1 {
		a, b := f.c.Tokens[k].Term, f.c.Tokens[k+1].Term
		if i := slices.Index(said, a); i >= 0 && i+1 < len(said) && said[i+1] == b && !rank.Stop(a) && !rank.Stop(b) {
			f.out.Used[k+1] = true
			return k, true
		}
	}
	return 0, false
}

func wordSet(words ...string) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[w] = true
	}
	return m
}
