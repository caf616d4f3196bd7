package extract

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

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
var lookFor = []string{"mention", "contain", "word", "phrase", "text", "search", "find", rank.Stem("occurrence"), "look", "搜索", "查找", "提到", "包含"}

// Introduces reports whether a text to search for follows a word.
func Introduces(term string) bool { return slices.Contains(lookFor, term) && !neutral[term] }

func isQuery(d *property) bool {
	return !d.number && d.role == anyText && hasTerm(d.terms, "queri", "search", "q", "keyword", "term", "needl")
}

// placeOf are what a path follows.
var placeOf = []string{"file", "folder", "directori", "read", "show", "open", "print", "list", "document", "tree", "文件", "目录", "文件夹", "读取", "查看", "列出", "打开", "显示"}

// cues scores the words around a mention that speak of a property.
func (f *filler) cues(d *property, j int) float64 {
	seen, prep, named := f.before(d, j)
	if named {
		return 6
	}
	m := &f.mentions[j]
	words := m.Kind == Name || m.Kind == Phrase
	score := max(f.wordScore(d, seen, []float64{5, 4, 2.5}), f.after(j, d))
	if words && f.namesItself(d, j) {
		score = max(score, 4)
	}
	score += roleScore(d, prep, words)
	if d.role == pathText && m.Kind != Path && m.Kind != Quoted {
		score = f.placeScore(d, j, prep)
	}
	switch {
	case m.Kind == Quoted:
		return d.quotedScore(m, score)
	case m.Kind == Phrase:
		return f.phraseScore(j, score, seen, prep)
	case m.unit && hasTerm(d.terms, "from", "sourc", "base"):
		return score + 2
	case m.Kind == Number && score == 0 && f.countsThings(d, j):
		return 3
	}
	return score
}

// never is the score of a value that nothing says to be the property's.
const never = -5

// before returns up to three words before a mention, the nearest first, and the preposition right before it. named reports that the property's
// one-letter name is among them: "a is 1".
func (f *filler) before(d *property, j int) (seen []string, prep string, named bool) {
	first := f.at[j] - 1
	for i := first; first-i < 7 && len(seen) < 3 && !f.ends(i); i-- {
		tok := f.c.Tokens[i]
		if len(seen) == 0 && prepositions[tok.Text] != nil {
			prep = cmp.Or(prep, tok.Text)
		}
		switch {
		case len(seen) == 0 && i < first && d.isLetter(tok.Text):
			return seen, prep, true
		case !glue[tok.Text] && len(seen) == 0 && i < first && f.isNumber(i-1):
			return seen, f.between(j, prep), false // "3 successes in 10 trials": the word is the number's before it
		case !glue[tok.Text]:
			seen = append(seen, tok.Term)
		case len(seen) > 0 && !between[tok.Text]:
			return seen, f.between(j, prep), false
		}
	}
	return seen, f.between(j, prep), false
}

// between are words that may stand between two that belong together.
var between = wordSet("the", "of", "a")

// ends reports whether words before a token are about something else.
func (f *filler) ends(token int) bool {
	return token < 0 || f.c.Tokens[token].Mention >= 0 || strings.Contains(",.;?，。？", f.c.Tokens[token].Text)
}

// isLetter reports whether a word is the property's name of one letter.
func (d *property) isLetter(word string) bool {
	return len(d.Name) == 1 && word == strings.ToLower(d.Name)
}

func (f *filler) isNumber(token int) bool {
	return token >= 0 && f.c.Tokens[token].Mention >= 0 && f.c.Mentions[f.c.Tokens[token].Mention].Kind == Number
}

// between returns the preposition before a mention; before B of "between A and B" it is like "to".
func (f *filler) between(j int, prep string) string {
	i := f.at[j]
	if prep == "" && i > 2 && f.c.Tokens[i-1].Text == "and" && f.c.Tokens[i-2].Mention >= 0 && f.c.Tokens[i-3].Text == "between" {
		return "to"
	}
	return prep
}

// quotedScore prefers texts and titles for quoted values, and takes one as a path only if it looks like one or is said to be one.
func (d *property) quotedScore(m *Mention, score float64) float64 {
	if hasTerm(d.terms, "titl", "name", "text", "messag", "bodi", "content") || hasTerm(d.said, "titl") {
		score++
	}
	if (d.role == pathText || d.role == globText) && !strings.ContainsAny(m.Text, "./*") && score < 3.5 {
		return never
	}
	return score
}

// phraseScore takes plain words only if something says that they are a value.
func (f *filler) phraseScore(j int, score float64, seen []string, prep string) float64 {
	switch {
	case score < 5 && f.ownWords(j):
		return score - 2
	case prep != "" || score >= 2:
		return score
	case len(seen) > 0 && len(rank.Terms(f.t.GetName())) == 1 && means(rank.Stem(f.t.GetName()), seen[0]):
		return 2 // echo hello
	}
	return never
}

// countsThings reports whether a number stands before a word of the tool's, "5 songs", and the property bounds how many there are.
func (f *filler) countsThings(d *property, j int) bool {
	i := f.at[j] + 1
	if i >= len(f.c.Tokens) || f.c.Tokens[i].Mention >= 0 || rank.Stop(f.c.Tokens[i].Term) || !hasTerm(d.terms, "limit", "count", "top", "max", "maximum") {
		return false
	}
	return slices.Contains(rank.Terms(f.t.GetName()+" "+f.t.GetDescription()), f.c.Tokens[i].Term)
}

// folderWords stand beside a folder's name.
var folderWords = wordSet("folder", "directory", "目录", "文件夹")

// placeScore scores a plain word as a path: it is one only where it is said to be one.
func (f *filler) placeScore(d *property, j int, prep string) float64 {
	before, after := f.beside(j)
	plain, folder := f.mentions[j].Kind == Phrase, f.takesFolder(d)
	read := slices.Contains(placeOf, before.Term) && !strings.HasSuffix(before.Text, "s")
	in := isFolder(before, after, prep)
	switch {
	case strings.Contains(f.mentions[j].Text, " "), in && !folder && (plain || before.Text != "of"):
		return never
	case in && folder:
		return 4
	case before.Text == "file", !plain && (in || read || isSubject(before, after)):
		return 3
	case read && folder && !f.ownWords(j):
		return 2.5
	}
	return never
}

// isFolder reports whether the words beside a name say that it is a folder's.
func isFolder(before, after Token, prep string) bool {
	return folderWords[after.Text] || folderWords[before.Text] || before.Text == "of" || inside[prep]
}

// inside are prepositions before a folder.
var inside = wordSet("in", "under", "inside", "within")

// isSubject reports whether a name is all that a question is about: how big is X?
func isSubject(before, after Token) bool {
	return before.Text == "is" && (after.Text == "" || after.Text == "?") || after.Term == "is"
}

// beside returns the word before a mention, articles left out, and the one behind it.
func (f *filler) beside(j int) (before, after Token) {
	for i := f.at[j] - 1; i >= 0; i-- {
		if before = f.c.Tokens[i]; !slices.Contains([]string{"the", "a", "named", "called"}, before.Text) {
			break
		}
	}
	if i := f.at[j] + 1; i < len(f.c.Tokens) {
		after = f.c.Tokens[i]
	}
	return before, after
}

// takesFolder reports whether a path may be a folder's.
func (f *filler) takesFolder(d *property) bool {
	words := append(rank.Terms(f.t.GetName()), d.said...)
	if len(d.said) == 0 {
		words = append(words, rank.Terms(f.t.GetDescription())...)
	}
	return hasTerm(words, "folder", "directori")
}

// ownWords reports whether a phrase only repeats what the tool's description says.
func (f *filler) ownWords(j int) bool {
	own := rank.Terms(f.t.GetDescription())
	return !slices.ContainsFunc(rank.Terms(f.mentions[j].Text), func(t string) bool { return !slices.Contains(own, t) && !rank.Stop(t) })
}

// roleScore scores the preposition before a value, or before a name or words.
func roleScore(d *property, prep string, words bool) float64 {
	if prep == "of" && !words {
		return 0 // a radius of 3
	}
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
