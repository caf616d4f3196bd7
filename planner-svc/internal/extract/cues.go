package extract

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/catalog"
	"pawl.dev/planner-svc/internal/rank"
)

// glue are words that may stand between a value and the word that says what it is.
var glue = wordSet("of", "is", "are", "was", "=", ":", "a", "an", "the", "at", "to", "with", "for", "from", "by", "in", "on", "be", "as", "equal", "equals", "(", "and", "saying", "that", "has", "given", "about", "since", "until", "after", "before", "between", "under", "within", "inside", "using", "into", "via", "whose", "where")

// prepositions say what a value is for by the words of properties' names.
var prepositions = map[string][]string{
	"from": {"from", "origin", "start", "sourc", "depart", "departur", "begin", "sinc", "base", "first", "min", "minimum", "check", "pickup"},
	"to":   {"to", "destin", "end", "target", "arriv", "until", "recipi", "max", "maximum", "quot", "second", "return"},
	"into": {"to", "target", "format"},
	"in":   {"citi", "locat", "countri", "region", "place", "state", "languag", "year", "unit", "room", "currenc", "format", "path", "directori", "folder"},
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

// Introduces reports whether a text to search for follows a word.
func Introduces(term string) bool { return slices.Contains(lookFor, term) && !neutral[term] }

func isQuery(d *property) bool {
	return !d.number && d.role == anyText && hasTerm(d.terms, "queri", "search", "q", "keyword", "term", "needl")
}

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
		if prep == "" && len(seen) == 0 && prepositions[tok.Text] != nil {
			prep = tok.Text
		}
		if len(d.Name) == 1 && tok.Text == strings.ToLower(d.Name) && len(seen) == 0 && steps > 0 {
			return 6 // "a is 1"
		}
		if !glue[tok.Text] {
			if i > 0 && f.c.Tokens[i-1].Mention >= 0 && len(seen) == 0 && i < f.at[j]-1 && f.c.Mentions[f.c.Tokens[i-1].Mention].Kind == Number {
				break // "3 successes in 10 trials": the word is the number's before it
			}
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
	if m := f.mentions[j]; prep != "of" || m.Kind == Name || m.Kind == Phrase {
		score += roleScore(d, prep)
	}
	if f.mentions[j].Kind == Quoted && (hasTerm(d.terms, "titl", "name", "text", "messag", "bodi", "content") || hasTerm(d.said, "titl")) {
		score++
	}
	if m := f.mentions[j]; m.Kind == Quoted && (d.role == pathText || d.role == globText) && !strings.ContainsAny(m.Text, "./*") && score < 3.5 {
		score = -5
	} else if d.role == pathText && m.Kind != Path && m.Kind != Quoted {
		if score = f.placeScore(d, j, prep); strings.Contains(m.Text, " ") {
			score = -5
		}
	}
	switch m := f.mentions[j]; {
	case m.Kind == Phrase && score < 5 && f.ownWords(j):
		score -= 2
	case m.Kind == Phrase && prep == "" && score < 2 && len(seen) > 0 && len(rank.Terms(f.t.GetName())) == 1 && means(rank.Stem(f.t.GetName()), seen[0]):
		score = 2 // echo hello
	case m.Kind == Phrase && prep == "" && score < 2:
		score = -5 // nothing says that the words are a value
	case m.unit && hasTerm(d.terms, "from", "sourc", "base"):
		score += 2
	case m.Kind == Number && hasTerm(d.terms, "limit", "count", "top", "max", "maximum") && score == 0 && f.countsThings(j):
		score += 3
	}
	return score
}

// countsThings reports whether a number stands before a word of the tool's: "5 songs".
func (f *filler) countsThings(j int) bool {
	i := f.at[j] + 1
	return i < len(f.c.Tokens) && f.c.Tokens[i].Mention < 0 && !rank.Stop(f.c.Tokens[i].Term) && slices.ContainsFunc(rank.Terms(f.t.GetName()+" "+f.t.GetDescription()), func(t string) bool { return t == f.c.Tokens[i].Term })
}

// placeScore scores a plain word as a path: it is one only where it is said to be one.
func (f *filler) placeScore(d *property, j int, prep string) float64 {
	before, after := Token{}, Token{}
	if i := f.at[j]; i > 0 {
		before = f.c.Tokens[i-1]
		for k := i - 1; k > 0 && (before.Text == "the" || before.Text == "a" || before.Text == "named" || before.Text == "called"); k-- {
			before = f.c.Tokens[k-1]
		}
	}
	if i := f.at[j] + 1; i < len(f.c.Tokens) {
		after = f.c.Tokens[i]
	}
	folder := hasTerm(append(rank.Terms(f.t.GetName()), d.said...), "folder", "directori") || len(d.said) == 0 && hasTerm(rank.Terms(f.t.GetDescription()), "folder", "directori")
	switch {
	case slices.Contains([]string{"folder", "directory", "目录", "文件夹"}, after.Text), slices.Contains([]string{"folder", "directory", "目录", "文件夹"}, before.Text), prep == "in", prep == "under", prep == "inside", prep == "within", before.Text == "of":
		if folder {
			return 4
		} else if before.Text == "of" && f.mentions[j].Kind != Phrase {
			return 3
		}
	case f.mentions[j].Kind != Phrase && (slices.Contains(placeOf, before.Term) && !strings.HasSuffix(before.Text, "s") || before.Text == "is" && (after.Text == "" || after.Text == "?")), before.Text == "file":
		return 3
	case f.mentions[j].Kind != Phrase && after.Term != "" && slices.Contains([]string{"有", "is"}, after.Text):
		return 3
	case slices.Contains(placeOf, before.Term) && !strings.HasSuffix(before.Text, "s") && folder && !f.ownWords(j):
		return 2.5
	}
	return -5
}

// ownWords reports whether a phrase only repeats what the tool's description says.
func (f *filler) ownWords(j int) bool {
	own := rank.Terms(f.t.GetDescription())
	return !slices.ContainsFunc(rank.Terms(f.mentions[j].Text), func(t string) bool { return !slices.Contains(own, t) && !rank.Stop(t) })
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
		case slices.Contains(lookFor, w) && isQuery(d),
			d.role == pathText && slices.Contains(placeOf, w):
			best = max(best, weight[k]-1.5)
		case w != "" && !rank.Stop(w) && slices.ContainsFunc(d.said, func(t string) bool { return t == w || w[0] >= utf8.RuneSelf && means(t, w) }):
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
					if glue[value] && k > 0 {
						f.out.Used[k-1] = true // turn on
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
		return slices.ContainsFunc(own, func(o string) bool { return means(o, t.Term) }) || neutral[t.Text]
	}
	isProp := func(t Token) bool {
		return slices.ContainsFunc(f.props, func(d property) bool {
			return slices.ContainsFunc(d.terms, func(o string) bool { return means(o, t.Term) && len(o) > 1 }) || d.role == pathText && slices.Contains(placeOf, t.Term)
		})
	}
	plain := func(i int) bool {
		t := f.c.Tokens[i]
		return t.Mention < 0 && !Limits[t.Term] && !empty[t.Text] && !slices.Contains(lookFor, t.Term) && (t.Text[0] < utf8.RuneSelf || len(rank.Synonyms(t.Term)) == 0) && !f.out.Used[i] && !glue[t.Text] && !rank.Stop(t.Term) && !strings.ContainsAny(t.Text, ",.;:?!()，。？！；") && !slices.ContainsFunc(f.mentions, func(m Mention) bool {
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
		for from < to && (isOwn(f.c.Tokens[from]) || isProp(f.c.Tokens[from])) {
			from++
		}
		for to > from+1 && (isOwn(f.c.Tokens[to-1]) && !neutral[f.c.Tokens[to-1].Text] && !f.placeName(to-1) || slices.Contains(placeOf, f.c.Tokens[to-1].Term)) {
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
	f.props[ends[0]].end, f.props[ends[1]].end = true, true
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
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first > last {
			continue
		}
		f.out.Input.Set(f.props[ends[0]].Name, strconv.Itoa(first))
		f.out.Input.Set(f.props[ends[1]].Name, strconv.Itoa(last))
		for j := range f.mentions {
			if f.mentions[j].Start >= m[0] && f.mentions[j].End <= m[1]+1 {
				f.take(j, 5)
			}
		}
		for i, tok := range f.c.Tokens {
			f.out.Used[i] = f.out.Used[i] || tok.Start >= m[0] && tok.Start < m[1]
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
		sentence, _, _ := strings.Cut(d.Description, ". ")
		first := rank.Terms(sentence)
		at, all := -1, true
		for _, term := range d.terms {
			k := slices.IndexFunc(f.c.Tokens, func(t Token) bool { return t.Mention < 0 && t.Term == term })
			at, all = max(at, k), all && (k >= 0 || slices.Contains([]string{"is", "use", "enabl", "onli"}, term))
		}
		for k := range len(f.c.Tokens) - 1 { // two words of the description: regular expression
			a, b := f.c.Tokens[k].Term, f.c.Tokens[k+1].Term
			if i := slices.Index(first, a); i >= 0 && i+1 < len(first) && first[i+1] == b && !rank.Stop(a) && !rank.Stop(b) {
				at, all, f.out.Used[k+1] = k, true, true
			}
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
