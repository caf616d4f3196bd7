package extract

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"pawl.dev/planner-svc/internal/rank"
)

// Kind is what a mention looks like.
type Kind int

// The kinds of mentions.
const (
	Quoted Kind = iota
	JSON        // an object or array
	Pair        // name=value
	URL
	Email
	Date
	Time
	Range // 10-20
	Path  // with a slash, wildcard or extension
	Number
	Code   // letters mixed with digits, all capitals, or an identifier
	Name   // capitalised words
	Phrase // other words
	Choice // a member of an enum
)

// Mention is a value that a text names.
type Mention struct {
	Kind       Kind
	Start, End int    // bytes of the text
	Text       string // without quotation marks
	Key        string // of a Pair
	Number     float64
	exact      string // the number as JSON has it, "" if it is computed
	Unit       string // as written, "" if none
	unit       bool   // only the unit of a number
	list       int    // mentions of one list have the same number; 0: in none
}

// Token is a word of a text, a mention, or a punctuation mark.
type Token struct {
	Text    string // in lower case
	Term    string // its stem; of Chinese, the word
	Start   int
	Mention int // index, or -1
}

// Clause is a sentence or a part of one.
type Clause struct {
	Text     string
	Tokens   []Token
	Mentions []Mention
}

const (
	months = `(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)`
	value  = `"[^"]*"|'[^']*'|[^\s,;，；]*[^\s,;，；.?!。？！]`
)

// patterns recognise mentions; the first that matches at a place counts.
var patterns = []struct {
	kind Kind
	re   *regexp.Regexp
}{
	{JSON, regexp.MustCompile(`^(?:\{.*\}|\[[^\]]*\])`)},
	{Quoted, regexp.MustCompile(`^(?:"[^"]+"|“[^”]+”|‘[^’]+’|「[^」]+」|` + "`[^`]+`" + `|'[^']+')`)},
	{Pair, regexp.MustCompile(`^([A-Za-z_][\w-]*)\s*=\s*(` + value + `)`)},
	{URL, regexp.MustCompile(`^[a-z][a-z0-9+]*://[^\s"'<>]+[^\s"'<>.,;:!?)]`)},
	{Email, regexp.MustCompile(`^[\w.+-]+@[\w-]+(?:\.[\w-]+)*`)},
	{Date, regexp.MustCompile(`(?i)^(?:\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?|` + months + `\.? \d{1,2}(?:st|nd|rd|th)?\b(?:,? \d{4})?|\d{1,2}(?:st|nd|rd|th)? (?:of )?` + months +
		`\b(?:,? \d{4})?|\d{4}年\d{1,2}月\d{1,2}日)`)},
	{Time, regexp.MustCompile(`(?i)^(?:\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m\b)?|\d{1,2} ?[ap]m\b)`)},
	{Code, regexp.MustCompile(`^(?:#[0-9a-fA-F]{3,8}\b|\+\d[\d -]{6,}\d|\d+\.\d+\.\d+\.\d+)`)},
	{Range, regexp.MustCompile(`^\d+ ?[-–] ?\d+\b`)},
	{Path, regexp.MustCompile(`^[\p{L}\p{N}_~.@*?{},+\[\]\\-]*[/*][\p{L}\p{N}_~.@*?{},+\[\]/\\-]*`)},
	{Path, regexp.MustCompile(`^\.?[\p{L}\p{N}_][\p{L}\p{N}_-]*(?:\.[\p{L}\p{N}_-]+)*\.[a-z][a-z0-9]{0,5}`)},
	{Number, regexp.MustCompile(`^[$€£¥]? ?[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?`)},
}

var (
	magnitude = regexp.MustCompile(`(?i)^ ?(k|thousand|million|mn|billion|bn|trillion|万|亿)(?:\b|$|\P{L})`)
	afterNum  = regexp.MustCompile(`^ ?(%|°[CF]?|\p{Han}{1,2}|[A-Za-zµ]+(?:/[a-z]+)?)`)
	zeros     = map[string]float64{"k": 1e3, "thousand": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12, "万": 1e4, "亿": 1e8}
	numerals  = map[string]float64{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20, "dozen": 12}
	wordRun   = regexp.MustCompile(`^[\p{L}\p{N}_](?:[\p{L}\p{N}_]|['’.-][\p{L}\p{N}_])*`)
)

// MostText bounds a text that is looked at, in bytes: work grows faster than its length.
const MostText = 8 << 10

// Scan finds the words and mentions of a text. Of one longer than MostText, it looks at the beginning.
func Scan(text string) *Clause {
	text = strings.ToValidUTF8(text[:min(len(text), MostText)], "")
	c := &Clause{Text: text}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case unicode.IsSpace(r):
			i += size
			continue
		case c.mention(i):
		case unicode.Is(unicode.Han, r):
			i += c.chinese(i)
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			i += c.word(i)
			continue
		default:
			c.Tokens = append(c.Tokens, Token{Text: string(r), Start: i, Mention: -1})
			i += size
			continue
		}
		i = c.Mentions[len(c.Mentions)-1].End
	}
	c.joinNames()
	c.findLists()
	return c
}

func (c *Clause) add(m Mention) {
	c.Tokens = append(c.Tokens, Token{Text: strings.ToLower(m.Text), Start: m.Start, Mention: len(c.Mentions)})
	c.Mentions = append(c.Mentions, m)
}

// mention takes a mention that starts at i, if one does.
func (c *Clause) mention(i int) bool {
	before, _ := utf8.DecodeLastRuneInString(c.Text[:i])
	if unicode.IsLetter(before) && !unicode.Is(unicode.Han, before) || unicode.IsDigit(before) {
		return false
	}
	for _, p := range patterns {
		if found := p.re.FindStringSubmatch(c.Text[i:]); found != nil {
			if m, ok := c.read(p.kind, i, found); ok {
				c.add(m)
				return true
			}
		}
	}
	return false
}

// read makes a mention of what a pattern found; false if it is none after all.
func (c *Clause) read(kind Kind, i int, found []string) (Mention, bool) {
	m := Mention{Kind: kind, Start: i, End: i + len(found[0]), Text: found[0]}
	switch kind {
	case Quoted:
		_, open := utf8.DecodeRuneInString(m.Text)
		_, end := utf8.DecodeLastRuneInString(m.Text)
		m.Text = m.Text[open : len(m.Text)-end]
	case Pair:
		m.Key, m.Text = found[1], strings.Trim(found[2], `"'`)
	case Path:
		m = trimPath(m)
		return m, m.Start == i && m.End > i && strings.ContainsAny(m.Text, "/*.") && m.Text != "/" && m.Text != "*"
	case Number:
		if next, _ := utf8.DecodeRuneInString(c.Text[m.End:]); unicode.IsLetter(next) && !c.unitAt(m.End) {
			return m, false // 1Z999, 3rd
		}
		m = c.number(m)
	}
	return m, true
}

// trimPath cuts off punctuation, and Chinese words that stand beside a path without a space.
func trimPath(m Mention) Mention {
	text := strings.TrimRight(m.Text, ".,?{[")
	if cut := strings.TrimLeftFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }); cut != text && cut != "" && cut[0] != '.' && cut[0] != '/' {
		m.Start += len(text) - len(cut)
		text = cut
	}
	if found := hanTail.FindStringSubmatchIndex(text); found != nil {
		text = text[:found[2]]
	}
	m.Text, m.End = text, m.Start+len(text)
	return m
}

// hanTail is Chinese behind the end of a path in other letters.
var hanTail = regexp.MustCompile(`[A-Za-z0-9_-](\p{Han}[^/.]*)$`)

// unitAt reports whether a magnitude or a unit stands right at i.
func (c *Clause) unitAt(i int) bool {
	rest := c.Text[i:]
	if magnitude.MatchString(rest) {
		return true
	}
	found := afterNum.FindStringSubmatch(rest)
	return found != nil && units()[strings.ToLower(found[1])].name != ""
}

// number reads the value, its magnitude and its unit.
func (c *Clause) number(m Mention) Mention {
	text := strings.TrimLeft(m.Text, "$€£¥ ")
	if text != m.Text {
		m.Unit = string([]rune(m.Text)[0])
	}
	m.exact = strings.TrimPrefix(strings.ReplaceAll(text, ",", ""), "+")
	m.Number, _ = strconv.ParseFloat(m.exact, 64)
	if found := magnitude.FindStringSubmatch(c.Text[m.End:]); found != nil {
		m.Number *= zeros[strings.ToLower(found[1])]
		m.exact = ""
		m.End += strings.Index(c.Text[m.End:], found[1]) + len(found[1])
	}
	if found := afterNum.FindStringSubmatch(c.Text[m.End:]); found != nil && m.Unit == "" {
		if _, known := units()[strings.ToLower(found[1])]; known {
			m.Unit = found[1]
			m.End += len(found[0])
		}
	}
	return m
}

// word takes an English word: a numeral, a code, or a plain word.
func (c *Clause) word(i int) int {
	w := wordRun.FindString(c.Text[i:])
	w = strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")
	if j := strings.IndexByte(w, '-'); j > 0 && unicode.IsLower([]rune(w)[0]) {
		w = w[:j] // check-in
	}
	if j := strings.IndexFunc(w, func(r rune) bool { return unicode.Is(unicode.Han, r) }); j > 0 {
		w = w[:j]
	}
	lower := strings.ToLower(w)
	n, numeral := numerals[lower]
	switch {
	case numeral:
		m := c.number(Mention{Kind: Number, Start: i, End: i + len(w), Text: "0"})
		m.Number, m.Text, m.exact = n, w, ""
		c.add(m)
		return m.End - i
	case isCode(w):
		c.add(Mention{Kind: Code, Start: i, End: i + len(w), Text: w})
		return len(w)
	}
	term := rank.Stem(lower)
	if _, isUnit := units()[lower]; isUnit && len(lower) < 3 {
		term = lower
	}
	c.Tokens = append(c.Tokens, Token{Text: lower, Term: term, Start: i, Mention: -1})
	return len(w)
}

// isCode reports whether a word is no plain one: USD, BA117, NewServer, deadline_exceeded.
func isCode(w string) bool {
	upper, lower, digits := 0, 0, 0
	hump := false
	var prev rune
	for _, r := range w {
		switch {
		case unicode.IsUpper(r):
			upper++
			hump = hump || unicode.IsLower(prev)
		case unicode.IsLower(r):
			lower++
		case unicode.IsDigit(r):
			digits++
		}
		prev = r
	}
	dotted := strings.ContainsRune(w, '.') && !strings.HasSuffix(w, ".")
	return upper > 1 && lower == 0 || digits > 0 || hump || dotted || strings.ContainsRune(w, '_')
}

// particles are Chinese words with a grammatical use, and what they correspond to.
var particles = map[string]string{"的": "of", "了": "the", "从": "from", "到": "to", "在": "in", "把": "the", "将": "the", "和": "and", "与": "and", "下": "the", "中": "the", "里": "the", "为": "to", "有": "is", "个": "the",
	"吗": "the", "是": "is", "请": "please", "帮": "please", "帮我": "please", "给我": "please", "我": "i", "一下": "please", "都": "the", "哪些": "which", "哪个": "which", "什么": "what", "关于": "about", "所有": "all", "里面": "the", "用": "with", "不": "not", "没": "not", "没有": "not", "不要": "not", "别": "not", "除了": "except",
	"大于": "larger", "小于": "smaller", "超过": "over", "少于": "under", "最大": "largest", "最小": "smallest", "最新": "newest", "最近": "recently", "一共": "total", "然后": "then"}

// chinese takes the next Chinese word: a particle, a word of the lexicon, or what stands before the next of those.
func (c *Clause) chinese(i int) int {
	known := func(rest string) (string, int) {
		runes := []rune(rest)
		for n := min(6, len(runes)); n > 0; n-- {
			w := string(runes[:n])
			if en, ok := particles[w]; ok {
				return en, len(w)
			}
			if len(rank.Synonyms(w)) > 0 {
				return w, len(w)
			}
		}
		return "", 0
	}
	if term, n := known(c.Text[i:]); n > 0 {
		c.Tokens = append(c.Tokens, Token{Text: term, Term: rank.Stem(term), Start: i, Mention: -1})
		return n
	}
	end := i
	for end < len(c.Text) {
		r, size := utf8.DecodeRuneInString(c.Text[end:])
		if _, n := known(c.Text[end:]); !unicode.Is(unicode.Han, r) || n > 0 {
			break
		}
		end += size
	}
	c.Tokens = append(c.Tokens, Token{Text: c.Text[i:end], Term: c.Text[i:end], Start: i, Mention: -1})
	return end - i
}

// connectors may stand inside a name.
var connectors = map[string]bool{"of": true, "the": true, "de": true, "la": true, "del": true, "von": true, "van": true, "le": true}

// joinNames makes mentions of capitalised words that do not start the text, and of what belongs to them.
func (c *Clause) joinNames() {
	var out []Token
	for i := 0; i < len(c.Tokens); i++ {
		if i == 0 || !c.capital(i) || c.Tokens[i-1].Text == "." {
			out = append(out, c.Tokens[i])
			continue
		}
		j := c.nameEnd(i)
		last, start := c.Tokens[j-1], c.Tokens[i].Start
		end := last.Start + len(last.Text)
		if last.Mention >= 0 {
			end = c.Mentions[last.Mention].End
			c.Mentions[last.Mention].Kind = -1
		}
		out = append(out, Token{Text: strings.ToLower(c.Text[start:end]), Start: start, Mention: len(c.Mentions)})
		c.Mentions = append(c.Mentions, Mention{Kind: Name, Start: start, End: end, Text: c.Text[start:end]})
		i = j - 1
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
	return t.Mention < 0 && unicode.IsUpper(r) && len(t.Text) > 1 && !rank.Stop(t.Term)
}

// nameEnd returns the token behind the name that begins at i.
func (c *Clause) nameEnd(i int) int {
	j := i + 1
	for c.capital(j) {
		j++
	}
	switch {
	case j+1 >= len(c.Tokens):
	case c.Tokens[j].Text == "," && c.Tokens[j+1].Mention >= 0 && len(c.Tokens[j+1].Text) == 2:
		return j + 2 // Boston, MA
	case connectors[c.Tokens[j].Text] && c.capital(j+1):
		for j += 2; c.capital(j); j++ {
		}
	}
	return j
}

// findLists numbers the mentions that are listed: a, b and c.
func (c *Clause) findLists() {
	list, last, between := 0, -1, ""
	for _, t := range c.Tokens {
		if t.Mention < 0 {
			between += t.Text
			continue
		}
		m := &c.Mentions[t.Mention]
		if last >= 0 && (c.Mentions[last].Kind == m.Kind || isThing(c.Mentions[last].Kind) && isThing(m.Kind)) && slices.Contains([]string{",", "and", ",and", "or", ",or", "、", "&"}, between) {
			if c.Mentions[last].list == 0 {
				list++
				c.Mentions[last].list = list
			}
			m.list = c.Mentions[last].list
		}
		last, between = t.Mention, ""
	}
}

// isThing reports whether a kind may be that of a file's name, and so stand in one list with another such.
func isThing(k Kind) bool { return k == Path || k == Code || k == Name }

// isoDate writes a date as 2006-01-02, with its time if it has one; false if its year is not said.
func isoDate(text string) (string, bool) {
	if len(text) >= 10 && text[4] == '-' {
		return text, true
	}
	clean := ordinal.ReplaceAllString(strings.NewReplacer(",", "", ".", "", " of ", " ").Replace(strings.ToLower(text)), "$1")
	for _, layout := range []string{"January 2 2006", "Jan 2 2006", "2 January 2006", "2 Jan 2006", "2006年1月2日"} {
		if t, err := time.Parse(layout, clean); err == nil {
			return t.Format(time.DateOnly), true
		}
	}
	return "", false
}

var ordinal = regexp.MustCompile(`(\d)(?:st|nd|rd|th)\b`)

// clock writes a time as 15:04.
func clock(text string) (string, bool) {
	clean := strings.ToUpper(strings.NewReplacer(" ", "", ".", "").Replace(text))
	for _, layout := range []string{"15:04", "3:04PM", "3PM", "15:04:05"} {
		if t, err := time.Parse(layout, clean); err == nil {
			return t.Format("15:04"), true
		}
	}
	return "", false
}
