package goal

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode/utf8"
)

// LiteralKind says what a literal looks like.
type LiteralKind int

// The kinds of literals.
const (
	Quoted LiteralKind = iota // text in quotation marks of any kind, or in backticks
	JSON                      // a JSON object
	URL                       // scheme://…
	Pair                      // key=value
	Glob                      // a path with wildcards
	Path                      // a path or a file name
	Tool                      // the id or the distinctive name of a tool
)

// Literal is a stretch of the goal that is taken as it stands.
type Literal struct {
	Kind LiteralKind
	Text string // the content, without quotation marks; of a pair, the value
	Key  string // of a pair
	Raw  string // as it was written
	JSON bool   // of a pair: the value is JSON other than a string
}

// Literals stand in the masked text as single private-use characters, so that patterns see one opaque word.
const (
	firstMask   = '\uE000'
	lastMask    = '\uF8FF'
	lit         = `[\x{E000}-\x{F8FF}]`
	maxLiterals = 1000
	maxJSON     = 16 // attempts to read JSON at a brace; a goal full of braces must not cost quadratic time
)

var (
	urlPattern   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^\s<>"'，。；、）】」]+`)
	keyPattern   = regexp.MustCompile(`^([A-Za-z_][\w.-]*)=`)
	valuePattern = regexp.MustCompile(`^[^\s,，;；。、=][^\s,，;；。、]*`)
	tokenPattern = regexp.MustCompile(`^(?:\{[^{}\s]*\}|[A-Za-z0-9_.~*?/@+\-\[\]%#:])+`)
	extPattern   = regexp.MustCompile(`^[\w+@~-][\w.+@~-]*\.[A-Za-z][A-Za-z0-9_]{0,9}$`)
	dotPattern   = regexp.MustCompile(`^\.[A-Za-z][\w.-]*$`)
	beforeDot    = regexp.MustCompile(`(?:^|\s)(?:find|ls|tree|in|under)\s+$`)
	quotedGlob   = regexp.MustCompile(`^[\w./*?{},-]*\.[\w*?{},]+$`)
	numPattern   = regexp.MustCompile(`^[-+]?\d[\d.,:]*$`)
)

// notPaths are abbreviations and word pairs that look like paths.
var notPaths = set("e.g", "i.e", "etc", "vs", "and/or", "either/or", "read/write", "yes/no", "n/a", "w/o", "input/output", "true/false", "on/off")

// wellKnown are files that projects have without an extension. They are recognised in exactly this writing.
var wellKnown = set("LICENSE", "LICENCE", "README", "NOTICE", "CHANGELOG", "CONTRIBUTING", "AUTHORS", "CODEOWNERS", "SECURITY",
	"COPYING", "VERSION", "TODO.md", "Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Gemfile", "Rakefile", "Vagrantfile", "Justfile")

// quotes maps opening to closing marks.
var quotes = map[rune]rune{'"': '"', '`': '`', '\'': '\'', '“': '”', '‘': '’', '「': '」', '『': '』', '«': '»', '《': '》', '＂': '＂'}

// masker replaces literals by private-use characters.
type masker struct {
	tools    func(string) bool
	literals []Literal
	out      strings.Builder
	jsonLeft int
}

// mask returns the text with its literals replaced, and the literals in order. isTool recognises tools' ids and names.
func mask(text string, isTool func(string) bool) (string, []Literal) {
	m := &masker{tools: isTool, jsonLeft: maxJSON}
	prev := ' '
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r >= firstMask && r <= lastMask { // would be taken for a literal
			m.out.WriteByte(' ')
			prev = ' '
			i += size
			continue
		}
		if n := m.literalAt(text[i:], r, prev); n > 0 {
			prev, _ = utf8.DecodeLastRuneInString(text[:i+n])
			i += n
			continue
		}
		n := m.wordAt(text[i:], prev)
		if n == 0 {
			m.out.WriteString(text[i : i+size])
			n = size
		}
		prev, _ = utf8.DecodeLastRuneInString(text[:i+n])
		i += n
	}
	return m.out.String(), m.literals
}

// literalAt consumes JSON, quoted text or a URL at the start of s and returns its length, 0 if there is none.
func (m *masker) literalAt(s string, r, prev rune) int {
	if r == '{' && m.jsonLeft > 0 {
		if raw := leadingJSON(s); raw != "" {
			return m.add(Literal{Kind: JSON, Text: raw, Raw: raw})
		}
		m.jsonLeft--
	}
	if inner, n := leadingQuoted(s, r, prev); n > 0 {
		kind := Quoted
		switch {
		case m.tools(inner):
			kind = Tool
		case quotedGlob.MatchString(inner) && isGlob(inner):
			kind = Glob
		}
		return m.add(Literal{Kind: kind, Text: inner, Raw: s[:n]})
	}
	if !isWordRune(prev) {
		if u := strings.TrimRight(urlPattern.FindString(s), ".,;:!?)"); u != "" {
			return m.add(Literal{Kind: URL, Text: u, Raw: u})
		}
		if l, ok := leadingPair(s); ok {
			return m.add(l)
		}
	}
	return 0
}

// wordAt consumes the word at the start of s: masked if it is a literal, copied if it is not.
func (m *masker) wordAt(s string, prev rune) int {
	if isWordRune(prev) {
		return 0
	}
	if strings.HasPrefix(s, ". ") && beforeDot.MatchString(m.out.String()) { // the current folder, as shells write it; no full stop
		return m.add(Literal{Kind: Path, Text: ".", Raw: "."})
	}
	token := strings.TrimRight(tokenPattern.FindString(s), ".:!?")
	if token == "" {
		return 0
	}
	if kind, ok := m.classify(token); ok {
		return m.add(Literal{Kind: kind, Text: token, Raw: token})
	}
	if strings.ContainsAny(token, "*[]{}?#%:") { // markup such as **bold**: only its first character is passed over
		return 0
	}
	m.out.WriteString(token)
	return len(token)
}

func (m *masker) classify(token string) (LiteralKind, bool) {
	switch {
	case m.tools(token):
		return Tool, true
	case notPaths[strings.ToLower(token)], numPattern.MatchString(token):
		return 0, false
	case strings.Trim(token, "*?./") == "" && token != "./" && token != "../" && token != "..":
		return Glob, strings.HasPrefix(token, "**/") || token == "*.*"
	case isGlob(token):
		return Glob, true
	case strings.Contains(token, "/"), extPattern.MatchString(token), dotPattern.MatchString(token), wellKnown[token]:
		return Path, true
	}
	return 0, false
}

// isGlob tells whether a token has wildcards between other characters; `**bold**` and `[x]` have none.
func isGlob(token string) bool {
	if !strings.ContainsAny(token, "*?{") {
		return false
	}
	return strings.ContainsAny(token, "./_-") && !strings.HasSuffix(token, "**") || strings.HasSuffix(token, "/**")
}

func (m *masker) add(l Literal) int {
	if len(m.literals) >= maxLiterals {
		m.out.WriteString(l.Raw)
		return len(l.Raw)
	}
	m.out.WriteRune(firstMask + rune(len(m.literals)))
	m.literals = append(m.literals, l)
	return len(l.Raw)
}

func leadingJSON(s string) string {
	dec := json.NewDecoder(strings.NewReader(s))
	var raw json.RawMessage
	if dec.Decode(&raw) != nil {
		return ""
	}
	return string(raw)
}

// leadingQuoted returns the content of a quotation at the start of s and the length of it all. A straight single quote opens
// only after a space or punctuation and closes only before one: the rest are apostrophes.
func leadingQuoted(s string, open, prev rune) (string, int) {
	closing, ok := quotes[open]
	if !ok || open == '\'' && isWordRune(prev) {
		return "", 0
	}
	start := utf8.RuneLen(open)
	for from := start; ; {
		i := strings.IndexRune(s[from:], closing)
		if i < 0 {
			return "", 0
		}
		end := from + i + utf8.RuneLen(closing)
		next, _ := utf8.DecodeRuneInString(s[end:])
		if open != '\'' || end == len(s) || !isWordRune(next) {
			inner := s[start : end-utf8.RuneLen(closing)]
			if strings.TrimSpace(inner) == "" {
				return "", 0
			}
			return inner, end
		}
		from = end
	}
}

// leadingPair reads key=value, the value being JSON, quoted text, or what comes up to the next space or separator.
func leadingPair(s string) (Literal, bool) {
	k := keyPattern.FindStringSubmatch(s)
	if k == nil {
		return Literal{}, false
	}
	rest := s[len(k[0]):]
	first, _ := utf8.DecodeRuneInString(rest)
	if inner, n := leadingQuoted(rest, first, ' '); n > 0 {
		return Literal{Kind: Pair, Key: k[1], Text: inner, Raw: s[:len(k[0])+n]}, true
	}
	if first == '{' || first == '[' {
		if raw := leadingJSON(rest); raw != "" {
			return Literal{Kind: Pair, Key: k[1], Text: raw, JSON: true, Raw: s[:len(k[0])+len(raw)]}, true
		}
	}
	value := strings.TrimRight(valuePattern.FindString(rest), ".!?")
	if value == "" {
		return Literal{}, false
	}
	return Literal{Kind: Pair, Key: k[1], Text: value, Raw: s[:len(k[0])+len(value)]}, true
}

func isWordRune(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}
