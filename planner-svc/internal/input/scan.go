package input

import (
	"cmp"
	"regexp"
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
	Phrase // other words
	Choice // a member of an enum, or a flag
	Glob   // for a kind of files, such as *.go for Go files
)

// Value is a value found in a text.
type Value struct {
	Kind     Kind
	From, To int    // its tokens are From to To-1
	Text     string // without quotation marks; the value of a Pair as JSON; the digits of a Number
	Key      string // the name of a Pair; the property of a Choice
	Unit     string // of a Number, "" if it has none
	list     int    // identifies the list of values that it belongs to; 0: none
}

// Token is a word, a value or a punctuation mark of a text.
type Token struct {
	Text       string // in lower case
	Term       string // its stem; for Chinese, the word or its English equivalent in the lexicon; "" for a value
	Start, End int    // byte offsets in the text
	Value      *Value // or nil
}

// Clause is a sentence or a part of one.
type Clause struct {
	Text   string
	Tokens []Token
	Values []*Value // in the text's order
}

const (
	letter = `[^\P{L}\p{Han}]` // of any script but Chinese
	month  = `(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]*`
	day    = `\d{1,2}(?:st|nd|rd|th)?`
)

// patterns recognise values; the first that matches at an offset counts.
var patterns = []struct {
	kind  Kind
	needs string // the value contains one of these characters; "": any
	re    *regexp.Regexp
}{
	{JSON, "}", regexp.MustCompile(`(?s)^\{.*\}`)},
	{JSON, "]", regexp.MustCompile(`^\[[^\]]*\]`)},
	{Quoted, "", regexp.MustCompile(`^(?:"[^"]+"|“[^“”]+”|‘[^‘’]+’|「[^「」]+」|` + "`[^`]+`" + `|'[^']+')`)},
	{Pair, "=", regexp.MustCompile(`^[A-Za-z_][\w-]{0,63}\s?=\s?(?:"[^"]*"|'[^']*'|[^\s,;，；]*[^\s,;，；.?!。？！])`)},
	{URL, ":", regexp.MustCompile(`^[a-z][a-z0-9+]*://[^\s"'<>]+[^\s"'<>.,;:!?)]`)},
	{Email, "@", regexp.MustCompile(`^[\w.+-]+@[\w-]+(?:\.[\w-]+)*`)},
	{Date, "", regexp.MustCompile(`(?i)^(?:\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?|` + month + ` ` + day + `\b(?:,? \d{4})?|` + day + ` (?:of )?` + month + `\b(?:,? \d{4})?)`)},
	{Time, ":mM", regexp.MustCompile(`(?i)^(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m\b)?|\d{1,2} ?[ap]m\b)`)},
	{Code, "", regexp.MustCompile(`^(?:#[0-9a-fA-F]{3,8}\b|\+\d[\d -]{6,}\d|\d+\.\d+\.\d+\.\d+)`)},
	{Path, "/*", regexp.MustCompile(`^(?:(?:[0-9_~.@*?#!+-]|` + letter + `)[\p{L}\p{N}_~.@*?{},+\[\]\\-]*)?[/*][\p{L}\p{N}_~.@*?{},+\[\]/\\-]*`)},
	{Path, ".", regexp.MustCompile(`^[#$%!+@~-]?\.?(?:` + letter + `|[\p{N}_])[\p{L}\p{N}_+&:-]*(?:\.[\p{L}\p{N}_+&:-]+)*\.[a-z][a-z0-9]{0,5}`)},
	{Code, "-", regexp.MustCompile(`^--?[A-Za-z][\w-]*`)}, // a flag
	{Number, "0123456789", regexp.MustCompile(`^[$€£¥]? ?[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?`)},
}

var (
	afterNumber = regexp.MustCompile(`^ ?(?:%|°[CF]?|\p{Han}{1,2}|[A-Za-zµ]+(?:/[a-z]+)?)`)
	word        = regexp.MustCompile(`^(?:` + letter + `|[\p{N}_])(?:` + letter + `|[\p{N}_]|['’.](?:` + letter + `|\p{N})|-[\p{Lu}\p{N}])*`)
	code        = regexp.MustCompile(`\p{Ll}\p{Lu}|[\p{N}_]|\..|^\P{Ll}{2,}$`) // found in words that are not plain: USD, BA117, NewServer, deadline_exceeded
	hanPath     = regexp.MustCompile(`^\p{Han}[\p{L}\p{N}_-]*[/.][\p{L}\p{N}_./-]*`)
	hanTail     = regexp.MustCompile(`([A-Za-z0-9_-])\p{Han}[^/.]*$`) // Chinese text right after a path in other letters
)

// MostText bounds how much of a text is read, in bytes.
const MostText = 8 << 10

// mostValue bounds a value without quotation marks, brackets or name, in bytes.
const mostValue = 512

// Scan finds the words and values in the first MostText bytes of a text.
func Scan(text string) *Clause {
	c := &Clause{Text: strings.ToValidUTF8(text[:min(len(text), MostText)], "")}
	for i := 0; i < len(c.Text); {
		r, size := utf8.DecodeRuneInString(c.Text[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case c.addValue(i):
		case unicode.Is(unicode.Han, r):
			c.addChinese(i)
		case word.MatchString(c.Text[i:min(len(c.Text), i+utf8.UTFMax)]):
			c.addWord(i)
		default:
			c.addToken(i, i+size, string(r), string(r))
		}
		i = c.Tokens[len(c.Tokens)-1].End
	}
	return c
}

// TextOf returns a token as it is written in the text.
func (c *Clause) TextOf(t Token) string { return c.Text[t.Start:t.End] }

func (c *Clause) addToken(start, end int, text, term string) {
	c.Tokens = append(c.Tokens, Token{Text: text, Term: term, Start: start, End: end})
}

var listSeparator = regexp.MustCompile(`(?i)^\s*(?:[,、&]|,?\s*(?:and|or))\s*$`)

// add appends a value and its token. An object also adds its members, as Pairs of the same token. Values of one kind form a list if only "and",
// "or" or a comma stands between them.
func (c *Clause) add(v *Value, start, end int) {
	v.From, v.To = len(c.Tokens), len(c.Tokens)+1
	if n := len(c.Values); n > 0 {
		if last := c.Values[n-1]; last.Kind == v.Kind && listSeparator.MatchString(c.Text[c.Tokens[last.From].End:start]) {
			last.list = cmp.Or(last.list, v.From)
			v.list = last.list
		}
	}
	for k, raw := range strictjson.Members(v.Text) {
		if v.Kind == JSON {
			c.Values = append(c.Values, &Value{Kind: Pair, From: v.From, To: v.To, Key: k, Text: raw})
		}
	}
	c.Values = append(c.Values, v)
	c.Tokens = append(c.Tokens, Token{Text: strings.ToLower(v.Text), Start: start, End: end, Value: v})
}

// addValue adds the value that starts at i, and reports whether there is a value.
func (c *Clause) addValue(i int) bool {
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
		if found := p.re.FindString(rest); found != "" {
			if v, end, ok := c.read(p.kind, found, i+len(found)); ok {
				c.add(&v, i, end)
				return true
			}
		}
	}
	return false
}

// read makes a value of a pattern's match, which ends at end, and returns where the value ends; false if the match is no value.
func (c *Clause) read(kind Kind, found string, end int) (Value, int, bool) {
	v := Value{Kind: kind, Text: found}
	switch kind {
	case Quoted:
		runes := []rune(found)
		v.Text = string(runes[1 : len(runes)-1])
	case Pair:
		key, text, _ := strings.Cut(found, "=")
		v.Key, v.Text = strings.TrimSpace(key), strictjson.Quote(strings.Trim(strings.TrimSpace(text), `"'`))
	case Path:
		v.Text = hanTail.ReplaceAllString(strings.TrimRight(found, ".,?{["), "$1")
		return v, end - len(found) + len(v.Text), strings.ContainsAny(v.Text, "/*.") && v.Text != "/" && v.Text != "*"
	case Number:
		v, after := c.readNumber(v, end)
		next, _ := utf8.DecodeRuneInString(c.Text[end:])
		return v, after, after > end || !unicode.IsLetter(next) // not: 1Z999, 3rd
	}
	return v, end, true
}

// readNumber reads a number, and its magnitude and unit, which start at end.
func (c *Clause) readNumber(v Value, end int) (Value, int) {
	text := strings.TrimLeft(v.Text, "$€£¥ ")
	if text != v.Text {
		v.Unit = string([]rune(v.Text)[0])
	}
	v.Text = strings.TrimPrefix(strings.ReplaceAll(text, ",", ""), "+")
	for range 2 {
		found := afterNumber.FindString(c.Text[end:min(len(c.Text), end+mostValue)])
		name := strings.TrimSpace(found)
		if times := rank.Key("magnitude", name); times != "" {
			v.Text = decimal(parse(v.Text) * parse(times))
		} else if rank.Key("unit", name) != "" && v.Unit == "" && name != "a" { // 3 A, but 5 a day
			v.Unit = name
		} else {
			break
		}
		end += len(found)
	}
	return v, end
}

// addWord adds the word at i, which is not Chinese: a numeral, a code, a part of a name, or a plain word.
func (c *Clause) addWord(i int) {
	w := word.FindString(c.Text[i:])
	w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")
	lower, last := strings.ToLower(w), Token{Text: "."}
	if n := len(c.Tokens); n > 0 {
		last = c.Tokens[n-1]
	}
	first, _ := utf8.DecodeRuneInString(w)
	switch n := rank.Key("number", lower); {
	case n != "":
		v, end := c.readNumber(Value{Kind: Number, Text: n}, i+len(w))
		c.add(&v, i, end)
	case code.MatchString(w):
		c.add(&Value{Kind: Code, Text: w}, i, i+len(w))
	case !unicode.IsUpper(first) || last.Text == "." || len(w) == 1 || rank.Stop(rank.Stem(lower)):
		c.addToken(i, i+len(w), lower, rank.Stem(lower))
	case last.Value != nil && last.Value.Kind == Name && c.Text[last.End:i] == " ": // Paris, New York
		last.End = i + len(w)
		last.Value.Text, last.Text = c.TextOf(last), strings.ToLower(c.TextOf(last))
		c.Tokens[len(c.Tokens)-1] = last
	default:
		c.add(&Value{Kind: Name, Text: w}, i, i+len(w))
	}
}

// addChinese adds the Chinese token at i: a word of the lexicon, a path, or the text before the next word of the lexicon.
func (c *Clause) addChinese(i int) {
	known := func(w string) bool { return rank.Key("zh", w) != "" || rank.Synonyms(w) != nil }
	w := rank.ChineseWord(c.Text[i:], known)
	if path := hanPath.FindString(c.Text[i:min(len(c.Text), i+mostValue)]); w == "" && path != "" {
		if v, end, ok := c.read(Path, path, i+len(path)); ok {
			c.add(&v, i, end)
			return
		}
	}
	for end := i; w == ""; {
		_, size := utf8.DecodeRuneInString(c.Text[end:])
		end += size
		if next, _ := utf8.DecodeRuneInString(c.Text[end:]); !unicode.Is(unicode.Han, next) || rank.ChineseWord(c.Text[end:], known) != "" {
			w = c.Text[i:end]
		}
	}
	term := cmp.Or(rank.Key("zh", w), w)
	c.addToken(i, i+len(w), term, rank.Stem(term))
}

var dateNoise = regexp.MustCompile(`(?i),|of |(\d)(?:st|nd|rd|th)\b| ([ap]m)`)

// iso returns a date as 2006-01-02, with its time if it has one, and a time as 15:04; false for a date without a year.
func (v *Value) iso() (string, bool) {
	clean := dateNoise.ReplaceAllString(v.Text, "$1$2")
	for _, layout := range []string{"January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006", "15:04", "3:04pm", "3pm", "3:04PM", "3PM"} {
		if t, err := time.Parse(layout, clean); err == nil && v.Kind == Date {
			return t.Format(time.DateOnly), true
		} else if err == nil {
			return t.Format("15:04"), true
		}
	}
	return v.Text, strings.Contains(v.Text, "-") || v.Kind == Time
}
