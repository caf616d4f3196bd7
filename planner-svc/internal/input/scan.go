package input

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/rank"
)

// Kind is the form of a value.
type Kind int

// The kinds of values.
const (
	Quoted Kind = iota
	JSON        // an object or array
	Pair        // name=value
	URL
	Email
	Date
	Time
	Path // with a slash, wildcard or extension
	Number
	Code   // letters mixed with digits, all capitals, or an identifier
	Name   // capitalised words
	Unit   // of a number
	Phrase // other words
	Choice // a member of an enum, or a flag
	Glob   // for a kind of files
)

// Value is what a text gives as a value.
type Value struct {
	Kind     Kind
	From, To int    // tokens
	Text     string // without quotation marks; of a Pair, JSON
	Key      string // of a Pair; the property of a Choice
	Number   float64
	exact    string // the number as JSON has it, "" if it is computed
	Unit     string // of a Number, "" if it has none
	list     int    // values of one list have the same number; 0: in none
}

// Token is a word of a text, a value, or a punctuation mark.
type Token struct {
	Text       string // in lower case
	Term       string // its stem; of Chinese, the word
	Start, End int    // bytes of the text
	Value      *Value // or nil
}

// Clause is a sentence or a part of one.
type Clause struct {
	Text   string
	Tokens []Token
	Values []*Value // in the text's order
}

const (
	months = `(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)`
	letter = `[^\P{L}\p{Han}]` // of any script but Chinese
)

// patterns recognise values; the first that matches at a place counts.
var patterns = []struct {
	kind  Kind
	needs string // one of these characters stands in such a value
	re    *regexp.Regexp
}{
	{JSON, "}", regexp.MustCompile(`(?s)^\{.*\}`)},
	{JSON, "]", regexp.MustCompile(`^\[[^\]]*\]`)},
	{Quoted, "", regexp.MustCompile(`^(?:"[^"]+"|“[^”]+”|‘[^’]+’|「[^」]+」|` + "`[^`]+`" + `|'[^']+')`)},
	{Pair, "=", regexp.MustCompile(`^[A-Za-z_][\w-]*\s*=\s*(?:"[^"]*"|'[^']*'|[^\s,;，；]*[^\s,;，；.?!。？！])`)},
	{URL, ":", regexp.MustCompile(`^[a-z][a-z0-9+]*://[^\s"'<>]+[^\s"'<>.,;:!?)]`)},
	{Email, "@", regexp.MustCompile(`^[\w.+-]+@[\w-]+(?:\.[\w-]+)*`)},
	{Date, "", regexp.MustCompile(`(?i)^(?:\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?|` + months + `\.? \d{1,2}(?:st|nd|rd|th)?\b(?:,? \d{4})?|\d{1,2}(?:st|nd|rd|th)? (?:of )?` + months +
		`\b(?:,? \d{4})?|\d{4}年\d{1,2}月\d{1,2}日)`)},
	{Time, ":mM", regexp.MustCompile(`(?i)^(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m\b)?|\d{1,2} ?[ap]m\b)`)},
	{Code, "", regexp.MustCompile(`^(?:#[0-9a-fA-F]{3,8}\b|\+\d[\d -]{6,}\d|\d+\.\d+\.\d+\.\d+)`)},
	{Path, "/*", regexp.MustCompile(`^(?:[A-Za-z0-9_~.@*?-][\p{L}\p{N}_~.@*?{},+\[\]\\-]*)?[/*][\p{L}\p{N}_~.@*?{},+\[\]/\\-]*`)},
	{Path, ".", regexp.MustCompile(`^\.?(?:` + letter + `|[\p{N}_])[\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_-]+)*\.[a-z][a-z0-9]{0,5}`)},
	{Number, "0123456789", regexp.MustCompile(`^[$€£¥]? ?[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?`)},
}

var (
	afterNumber = regexp.MustCompile(`^ ?(%|°[CF]?|\p{Han}{1,2}|[A-Za-zµ]+(?:/[a-z]+)?)`)
	word        = regexp.MustCompile(`^(?:` + letter + `|[\p{N}_])(?:` + letter + `|[\p{N}_]|['’.](?:` + letter + `|\p{N})|-[\p{Lu}\p{N}])*`)
	hanTail     = regexp.MustCompile(`([A-Za-z0-9_-])\p{Han}[^/.]*$`) // Chinese behind the end of a path in other letters
)

// mostValue bounds a value without quotation marks, brackets or name, in bytes, so that scanning takes time in proportion to a text's length.
const mostValue = 512

// MostText bounds a text that is looked at, in bytes.
const MostText = 8 << 10

// Scan finds the words and values of a text. Of one longer than MostText, it looks at the beginning.
func Scan(text string) *Clause {
	c := &Clause{Text: strings.ToValidUTF8(text[:min(len(text), MostText)], "")}
	for i := 0; i < len(c.Text); {
		r, size := utf8.DecodeRuneInString(c.Text[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case c.value(i):
		case unicode.Is(unicode.Han, r):
			c.chinese(i)
		case word.MatchString(c.Text[i:]):
			c.word(i)
		default:
			c.token(i, i+size, string(r), string(r))
		}
		i = c.Tokens[len(c.Tokens)-1].End
	}
	c.properNames()
	c.collect()
	return c
}

// Said returns a token as the text has it.
func (c *Clause) Said(t Token) string { return c.Text[t.Start:t.End] }

func (c *Clause) token(start, end int, text, term string) {
	c.Tokens = append(c.Tokens, Token{Text: text, Term: term, Start: start, End: end})
}

// add makes a token of a value.
func (c *Clause) add(v Value, start, end int) {
	c.Tokens = append(c.Tokens, Token{Text: strings.ToLower(v.Text), Start: start, End: end, Value: &v})
}

// value takes a value that starts at i, if one does.
func (c *Clause) value(i int) bool {
	before, _ := utf8.DecodeLastRuneInString(c.Text[:i])
	if unicode.IsLetter(before) && !unicode.Is(unicode.Han, before) || unicode.IsDigit(before) {
		return false
	}
	for _, p := range patterns {
		rest := c.Text[i:]
		if p.kind > Pair {
			rest = rest[:min(len(rest), mostValue)]
		}
		if p.needs != "" && !strings.ContainsAny(rest, p.needs) {
			continue
		}
		if found := p.re.FindString(rest); found != "" && len(found) != mostValue {
			if v, end, ok := c.read(p.kind, found, i+len(found)); ok {
				c.add(v, i, end)
				return true
			}
		}
	}
	return false
}

// read makes a value of what a pattern found before end, and returns its end; false if it is none after all.
func (c *Clause) read(kind Kind, found string, end int) (Value, int, bool) {
	v := Value{Kind: kind, Text: found}
	switch kind {
	case Quoted:
		v.Text = strings.Trim(found, "\"'`“”‘’「」")
	case Pair:
		key, text, _ := strings.Cut(found, "=")
		v.Key, v.Text = strings.TrimSpace(key), strictjson.Quote(strings.Trim(strings.TrimSpace(text), `"'`))
	case Path:
		v.Text = hanTail.ReplaceAllString(strings.TrimRight(found, ".,?{["), "$1")
		return v, end - len(found) + len(v.Text), strings.ContainsAny(v.Text, "/*.") && v.Text != "/" && v.Text != "*"
	case Number:
		v, after := c.number(v, end)
		next, _ := utf8.DecodeRuneInString(c.Text[end:])
		return v, after, after > end || !unicode.IsLetter(next) // not: 1Z999, 3rd
	}
	return v, end, true
}

// number reads a number, and its magnitude and unit, which stand at end.
func (c *Clause) number(v Value, end int) (Value, int) {
	text := strings.TrimLeft(v.Text, "$€£¥ ")
	if text != v.Text {
		v.Unit = string([]rune(v.Text)[0])
	}
	v.exact = strings.TrimPrefix(strings.ReplaceAll(text, ",", ""), "+")
	v.Number = number(v.exact)
	for range 2 {
		found := afterNumber.FindStringSubmatch(c.Text[end:])
		if found == nil {
			break
		}
		name := found[1]
		if rank.Key("magnitude", name) == "" && rank.Key("unit", name) == "" {
			_, size := utf8.DecodeRuneInString(name)
			name = name[:size] // 3天后
			if size == 1 {
				break
			}
		}
		if times := rank.Key("magnitude", name); times != "" {
			v.Number, v.exact = v.Number*number(times), ""
		} else if rank.Key("unit", name) != "" && v.Unit == "" && name != "a" && name != "in" { // 3 A, but "5 a day", "7 in the evening"
			v.Unit = name
		} else {
			break
		}
		end += strings.Index(c.Text[end:], name) + len(name)
	}
	return v, end
}

// word takes a word that is not Chinese: a numeral, a code, or a plain word.
func (c *Clause) word(i int) {
	w := word.FindString(c.Text[i:])
	w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")
	lower := strings.ToLower(w)
	if n := rank.Key("number", lower); n != "" {
		v, end := c.number(Value{Kind: Number, Text: n}, i+len(w))
		c.add(v, i, end)
	} else if isCode(w) {
		c.add(Value{Kind: Code, Text: w}, i, i+len(w))
	} else {
		c.token(i, i+len(w), lower, rank.Stem(lower))
	}
}

var (
	hump     = regexp.MustCompile(`\p{Ll}\p{Lu}|[\p{N}_]|\..`)
	capitals = regexp.MustCompile(`^\P{Ll}{2,}$`)
)

// isCode reports whether a word is no plain one: USD, BA117, NewServer, deadline_exceeded.
func isCode(w string) bool { return hump.MatchString(w) || capitals.MatchString(w) }

// chinese takes the next Chinese word: one of the lexicon, or what stands before the next of those.
func (c *Clause) chinese(i int) {
	known := func(w string) bool { return rank.Key("zh", w) != "" || rank.Synonyms(w) != nil }
	w := rank.ChineseWord(c.Text[i:], known)
	for end := i; w == ""; {
		_, size := utf8.DecodeRuneInString(c.Text[end:])
		end += size
		if next, _ := utf8.DecodeRuneInString(c.Text[end:]); !unicode.Is(unicode.Han, next) || rank.ChineseWord(c.Text[end:], known) != "" {
			w = c.Text[i:end]
		}
	}
	term := cmp.Or(rank.Key("zh", w), w)
	c.token(i, i+len(w), term, rank.Stem(term))
}

// properNames makes values of capitalised words that do not start a sentence: Paris, Bank of China, British pounds, Boston, MA.
func (c *Clause) properNames() {
	var out []Token
	for i := 0; i < len(c.Tokens); i++ {
		t := c.Tokens[i]
		if i > 0 && c.capital(i) && c.Tokens[i-1].Text != "." {
			j := i + 1
			for c.capital(j) || j < len(c.Tokens) && (rank.In("connector", c.Tokens[j].Text) && c.capital(j+1) || rank.Key("code", c.Tokens[j].Text) != "") {
				j++
			}
			if j+1 < len(c.Tokens) && c.Tokens[j].Text == "," && c.Tokens[j+1].Value != nil && len(c.Tokens[j+1].Text) == 2 {
				j += 2
			}
			t.End = c.Tokens[j-1].End
			name := c.Text[t.Start:t.End]
			t.Text, t.Term, t.Value = strings.ToLower(name), "", &Value{Kind: Name, Text: name}
			i = j - 1
		}
		out = append(out, t)
	}
	c.Tokens = out
}

// capital reports whether a token is a capitalised word that says something.
func (c *Clause) capital(i int) bool {
	if i >= len(c.Tokens) {
		return false
	}
	t := c.Tokens[i]
	r, _ := utf8.DecodeRuneInString(c.Text[t.Start:])
	return t.Value == nil && unicode.IsUpper(r) && len(t.Text) > 1 && !rank.Stop(t.Term)
}

// collect gathers the values and the units of numbers, and numbers those that are listed: a, b and c.
func (c *Clause) collect() {
	last, list, between := &Value{Kind: -1}, 0, ""
	for i, t := range c.Tokens {
		v := t.Value
		if v == nil {
			between += t.Text
			continue
		}
		if (last.Kind == v.Kind || last.isThing() && v.isThing()) && slices.Contains([]string{",", "and", ",and", "or", ",or", "、", "&"}, between) {
			if last.list == 0 {
				list++
				last.list = list
			}
			v.list = last.list
		}
		v.From, v.To = i, i+1
		c.Values = append(c.Values, v)
		if v.Unit != "" {
			c.Values = append(c.Values, &Value{Kind: Unit, From: i, To: i + 1, Text: v.Unit})
		}
		last, between = v, ""
	}
}

// isThing reports whether a value may be a file's name, and so stand in one list with another such.
func (v *Value) isThing() bool { return v.Kind == Path || v.Kind == Code || v.Kind == Name }

var ordinal = regexp.MustCompile(`(\d)(?:st|nd|rd|th)\b`)

// isoDate writes a date as 2006-01-02, with its time if it has one; false if its year is not said.
func isoDate(text string) (string, bool) {
	if len(text) >= 10 && text[4] == '-' {
		return text, true
	}
	clean := ordinal.ReplaceAllString(strings.NewReplacer(",", "", ".", "", " of ", " ").Replace(strings.ToLower(text)), "$1")
	return reformat(clean, time.DateOnly, "January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006", "2006年1月2日")
}

// clock writes a time as 15:04.
func clock(text string) (string, bool) {
	return reformat(strings.ToUpper(strings.NewReplacer(" ", "", ".", "").Replace(text)), "15:04", "15:04", "3:04PM", "3PM", "15:04:05")
}

// reformat writes a time that has one of the layouts in another.
func reformat(text, as string, layouts ...string) (string, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(as), true
		}
	}
	return "", false
}
