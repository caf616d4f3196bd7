package extract

import (
	"regexp"
	"slices"
	"strings"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// glue are words that may stand between a value and the word that says what it is.
var glue = wordSet("of", "is", "are", "was", "=", ":", "a", "an", "the", "at", "to", "with", "for", "from", "by", "in", "on", "named", "called", "titled", "labeled", "be", "as", "equal", "equals", "(", "and", "saying", "that", "has", "given")

// prepositions say what a value is for by the words of properties' names.
var prepositions = map[string][]string{
	"from": {"from", "origin", "start", "sourc", "depart", "departur", "begin", "sinc", "base", "first", "min", "minimum", "check", "pickup"},
	"to":   {"to", "destin", "end", "target", "arriv", "until", "recipi", "max", "maximum", "quot", "second", "return"},
	"into": {"to", "target", "format"},
	"in":   {"citi", "locat", "countri", "region", "place", "state", "languag", "year", "unit", "room", "currenc", "format", "path", "directori", "folder", "field", "leagu"},
	"at":   {"time", "locat", "place", "hotel", "restaur", "price", "rate", "speed", "angl"},
	"on":   {"date", "day", "topic"},
	"for":  {"word", "topic", "queri", "citi", "locat", "custom", "movi", "date"},
	"of":   {"countri", "citi", "state", "word", "topic", "path", "directori"},
	"by":   {"artist", "author", "writer", "creator"}, "about": {"topic", "queri", "subject", "keyword", "search"},
	"since": {"sinc", "start", "from", "after"}, "until": {"until", "end", "to"}, "after": {"after", "sinc", "start"}, "before": {"before", "until", "end"},
	"between": {"from", "start", "min", "first", "a"}, "under": {"path", "max", "maximum"}, "within": {"path", "radius"}, "inside": {"path"}, "via": {"mode"}, "using": {"ingredi", "mode"}, "as": {"role", "format"},
}

// lookFor are what a text to search for follows.
var lookFor = []string{"mention", "contain", "word", "phrase", "text", "search", "find", "occurr", "look", "搜索", "查找", "提到", "包含"}

// placeOf are what a path follows.
var placeOf = []string{"file", "folder", "directori", "read", "show", "open", "print", "list", "document", "tree", "文件", "目录", "文件夹", "读取", "查看", "列出", "打开", "显示"}

// cues scores the words around a mention that speak of a property.
func (f *filler) cues(d *property, j int) float64 {
	score, prep := 0.0, ""
	weight := []float64{5, 4, 2.5}
	var seen []string
	i := f.at[j] - 1
	for steps := 0; i >= 0 && steps < 7 && len(seen) < 3; i, steps = i-1, steps+1 {
		tok := f.c.Tokens[i]
		if tok.Mention >= 0 || strings.Contains(",.;?，。？", tok.Text) {
			break
		}
		if prep == "" && len(seen) == 0 && prepositions[tok.Text] != nil && tok.Text != "of" {
			prep = tok.Text
		}
		if len(d.Name) == 1 && tok.Text == strings.ToLower(d.Name) && len(seen) == 0 && steps > 0 {
			return 6 // "a is 1"
		}
		if !glue[tok.Text] {
			seen = append(seen, tok.Term)
		} else if len(seen) > 0 && tok.Text != "the" && tok.Text != "of" && tok.Text != "a" {
			break
		}
	}
	score = f.wordScore(d, seen, weight)
	if after := f.after(j, d); after > score {
		score = after
	}
	if f.mentions[j].Kind == Phrase || f.mentions[j].Kind == Name {
		if score < 4 && f.namesItself(d, j) {
			score = 4
		}
	}
	if prep == "" && i >= 0 && f.listBefore(j) {
		prep = "to" // between A and B
	}
	return score + roleScore(d, prep)
}

// listBefore reports whether the mention is the second of "between A and B".
func (f *filler) listBefore(j int) bool {
	i := f.at[j]
	return i > 2 && f.c.Tokens[i-1].Text == "and" && f.c.Tokens[i-2].Mention >= 0 && f.c.Tokens[i-3].Text == "between"
}

func roleScore(d *property, prep string) float64 {
	for _, term := range prepositions[prep] {
		if slices.Contains(d.terms, term) {
			return 3
		}
	}
	for _, term := range prepositions[prep] {
		if slices.Contains(d.said, term) {
			return 1.5
		}
	}
	return 0
}

// wordScore weighs words near a value, the nearest first, by how much of the property's name and description they are.
func (f *filler) wordScore(d *property, words []string, weight []float64) float64 {
	own := slices.DeleteFunc(slices.Clone(d.terms), func(t string) bool { return len(t) < 2 })
	best, matched := 0.0, 0
	for k, w := range words {
		switch {
		case slices.ContainsFunc(own, func(t string) bool { return means(t, w) }):
			best, matched = max(best, weight[k]), matched+1
		case !d.number && slices.Contains(lookFor, w) && hasTerm(d.terms, "queri", "search", "q", "keyword", "text", "pattern") && d.role == anyText,
			d.role == pathText && slices.Contains(placeOf, w):
			best = max(best, weight[k]-1.5)
		case slices.Contains(d.said, w) && !rank.Stop(w):
			best = max(best, 0.45*weight[k])
		}
	}
	if matched > 0 && len(own) > 1 {
		best *= 0.6 + 0.4*float64(matched)/float64(len(own))
	}
	return best
}

// after scores the word right behind a value: "2 passengers".
func (f *filler) after(j int, d *property) float64 {
	i := f.at[j] + 1
	for i < len(f.c.Tokens) && f.c.Tokens[i].Start < f.mentions[j].End {
		i++
	}
	if i >= len(f.c.Tokens) || f.c.Tokens[i].Mention >= 0 || f.mentions[j].Kind == Phrase {
		return 0
	}
	words := []string{f.c.Tokens[i].Term}
	if glue[f.c.Tokens[i].Text] || rank.Stop(words[0]) {
		return 0
	}
	if i+1 < len(f.c.Tokens) && f.c.Tokens[i+1].Mention < 0 && !glue[f.c.Tokens[i+1].Text] {
		words = append(words, f.c.Tokens[i+1].Term)
	}
	return f.wordScore(d, words, []float64{4.2, 3})
}

// namesItself reports whether a mention's own words name the property: "living room".
func (f *filler) namesItself(d *property, j int) bool {
	terms := rank.Terms(f.mentions[j].Text)
	return len(terms) > 1 && means(d.terms[len(d.terms)-1], terms[len(terms)-1])
}

// means reports whether two terms mean the same.
func means(a, b string) bool { return a == b || slices.Contains(rank.Synonyms(a), b) }

// choices adds the members of enums that the clause names, as mentions.
func (f *filler) choices() {
	for i := range f.props {
		d := &f.props[i]
		for _, value := range d.enum {
			for k, tok := range f.c.Tokens {
				if n := f.choiceAt(value, k); n > 0 {
					end := tok.Start + len(tok.Text)
					if last := f.c.Tokens[k+n-1]; last.Mention < 0 {
						end = last.Start + len(last.Text)
					} else {
						end = f.c.Mentions[last.Mention].End
					}
					f.mentions = append(f.mentions, Mention{Kind: Choice, Start: tok.Start, End: end, Text: value, Key: d.Name, list: 1000 + i*btoi(d.array)})
					f.at = append(f.at, k)
				}
			}
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return -1000
}

// choiceAt returns how many tokens from k name a member of an enum.
func (f *filler) choiceAt(value string, k int) int {
	tok := f.c.Tokens[k]
	if tok.Mention >= 0 {
		m := f.c.Mentions[tok.Mention]
		unit := m.Kind == Number && units()[strings.ToLower(m.Unit)].name == units()[strings.ToLower(value)].name && m.Unit != ""
		if m.Kind != Quoted && strings.EqualFold(m.Text, value) || unit || m.Kind == Name && codes()[strings.ToLower(m.Text)] == value {
			return 1
		}
		return 0
	}
	if codes()[tok.Text] == value {
		return 1
	}
	parts := catalog.NameParts(value)
	for n, part := range parts {
		if k+n >= len(f.c.Tokens) {
			return 0
		}
		t := f.c.Tokens[k+n]
		if t.Text != part && (t.Term != rank.Stem(part) || len(part) < 3) {
			return 0
		}
	}
	if len(parts) == 1 && glue[value] && (k == 0 || !slices.Contains([]string{"turn", "switch", "set", "toggl"}, f.c.Tokens[k-1].Term)) {
		return 0 // "on" is a preposition, as a rule
	}
	return len(parts)
}

// phrases adds runs of plain words as mentions, without the words that speak of the tool itself.
func (f *filler) phrases() {
	own := rank.Terms(f.t.GetName())
	isOwn := func(t Token) bool {
		return slices.ContainsFunc(own, func(o string) bool { return means(o, t.Term) }) || neutral[t.Term]
	}
	isProp := func(t Token) bool {
		return slices.ContainsFunc(f.props, func(d property) bool {
			return slices.ContainsFunc(d.terms, func(o string) bool { return means(o, t.Term) && len(o) > 1 }) || d.role == pathText && slices.Contains(placeOf, t.Term)
		})
	}
	plain := func(i int) bool {
		t := f.c.Tokens[i]
		return t.Mention < 0 && !glue[t.Text] && !rank.Stop(t.Term) && !strings.ContainsAny(t.Text, ",.;:?!()，。？！；") && !slices.ContainsFunc(f.mentions, func(m Mention) bool {
			return m.Kind == Choice && m.Start <= t.Start && t.Start < m.End
		})
	}
	for i := 0; i < len(f.c.Tokens); i++ {
		if !plain(i) {
			continue
		}
		j := i
		for j < len(f.c.Tokens) && (plain(j) || j+1 < len(f.c.Tokens) && j > i && (f.c.Tokens[j].Text == "," || f.c.Tokens[j].Text == "and") && plain(j+1) && f.listAhead(i, j)) {
			j++
		}
		from, to := i, j
		for from < to && (isOwn(f.c.Tokens[from]) || isProp(f.c.Tokens[from]) && to-from > 1) {
			from++
		}
		for to > from+1 && (isOwn(f.c.Tokens[to-1]) && !f.placeName(to-1) || slices.Contains(placeOf, f.c.Tokens[to-1].Term)) {
			to--
		}
		if from < to {
			last := f.c.Tokens[to-1]
			start := f.c.Tokens[from].Start
			end := start
			for _, t := range f.c.Tokens[from:to] {
				end = max(end, t.Start+len(t.Text))
			}
			_ = last
			f.mentions = append(f.mentions, Mention{Kind: Phrase, Start: start, End: min(end, len(f.c.Text)), Text: f.c.Text[start:min(end, len(f.c.Text))]})
			f.at = append(f.at, from)
		}
		i = j
	}
}

// placeName reports whether a word belongs to a name although it is the tool's or a property's: the room of "living room".
func (f *filler) placeName(i int) bool {
	return slices.ContainsFunc(f.props, func(d property) bool { return !d.number && d.terms[len(d.terms)-1] == f.c.Tokens[i].Term })
}

// listAhead reports whether the words from i on are a list for an array: another comma or "and" follows the first.
func (f *filler) listAhead(int, int) bool {
	return slices.ContainsFunc(f.props, func(d property) bool { return d.array && !d.number && len(d.enum) == 0 })
}

// neutral are stems of words with which goals are said and that tools have in common.
var neutral = wordSet("get", "find", "show", "tell", "give", "calcul", "comput", "determin", "look", "want", "need", "know", "let", "see", "list", "search", "work", "estim", "check", "return", "use", "call", "display", "fetch", "retriev", "provid", "help")

// ranges gives 10-20, and "10 to 20" and "first 20" of a noun, to the properties that name the noun and an end.
func (f *filler) ranges() {
	ends := [2]int{-1, -1}
	for i := range f.props {
		for side, words := range [2][]string{{"start", "from", "begin"}, {"end", "to", "until"}} {
			if f.props[i].number && len(f.props[i].terms) > 1 && hasTerm(f.props[i].terms, words...) && ends[side] < 0 {
				ends[side] = i
			}
		}
	}
	if ends[0] < 0 || ends[1] < 0 {
		return
	}
	for _, m := range lineRange.FindAllStringSubmatchIndex(f.c.Text, -1) {
		group := func(k int) string {
			if m[2*k] < 0 {
				return ""
			}
			return f.c.Text[m[2*k]:m[2*k+1]]
		}
		noun := rank.Stem(strings.ToLower(group(1) + group(5)))
		if noun != "" && !hasTerm(f.props[ends[0]].terms, noun) && !slices.ContainsFunc(f.props[ends[0]].terms, func(t string) bool { return means(t, noun) }) {
			continue
		}
		from, to := group(2), group(3)
		if n := group(4) + group(6); n != "" {
			from, to = "1", n
		}
		f.out.Input.Set(f.props[ends[0]].Name, from)
		f.out.Input.Set(f.props[ends[1]].Name, to)
		for j := range f.mentions {
			if f.mentions[j].Start >= m[0] && f.mentions[j].End <= m[1]+1 {
				f.take(j, 5)
			}
		}
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
				for j := range f.mentions {
					if f.at[j] == k {
						f.taken[j] = true
					}
				}
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
		at, all := -1, true
		for _, term := range d.terms {
			k := slices.IndexFunc(f.c.Tokens, func(t Token) bool { return t.Mention < 0 && t.Term == term })
			at, all = max(at, k), all && (k >= 0 || slices.Contains([]string{"is", "use", "enabl", "onli"}, term))
		}
		if d.Name == "regex" && strings.Contains(strings.ToLower(f.c.Text), "regular expression") {
			at, all = 0, true
		}
		if !all || at < 0 {
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

func wordSet(words ...string) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[w] = true
	}
	return m
}
