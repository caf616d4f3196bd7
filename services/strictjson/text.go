package strictjson

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Content returns the value of a JSON string, and the trimmed text of any other JSON value.
func Content(raw string) string {
	raw = strings.Trim(raw, " \t\r\n")
	if strings.HasPrefix(raw, `"`) {
		return Unquote(raw)
	}
	return raw
}

// Unquote returns the value of a JSON string literal. It copies only if there are escapes.
func Unquote[T Text](raw T) T {
	if len(raw) < 2 {
		return raw[:0]
	}
	inner := raw[1 : len(raw)-1]
	if indexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return inner
	}
	return T(s)
}

// Quote writes a string as JSON in one line. Characters that matter only to HTML are not escaped.
func Quote(s string) string { return string(AppendQuote(nil, s)) }

// AppendQuote appends a string as Quote writes it. Invalid UTF-8 is replaced.
func AppendQuote(to []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(to, '"'), s...), '"')
	}
	text, err := Marshal(s)
	if err != nil {
		text = `""` // never: every string can be written as JSON
	}
	return append(to, text...)
}

// Marshal writes a value as JSON in one line. Characters that matter only to HTML are not escaped.
func Marshal(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// isPlain reports whether a string is ASCII and needs no escapes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Array returns a JSON array of JSON texts.
func Array(items []string) string { return "[" + strings.Join(items, ",") + "]" }

// Compact removes the space between tokens of valid JSON. It copies the text only if there is such space.
func Compact(text string) string {
	var b strings.Builder
	written := 0
	for i := 0; i < len(text); {
		if !isSpace(text[i]) {
			i = tokenEnd(text, i)
			continue
		}
		b.WriteString(text[written:i])
		i = skipSpace(text, i)
		written = i
	}
	if written == 0 {
		return text
	}
	b.WriteString(text[written:])
	return b.String()
}

// MapStrings compacts valid JSON and replaces each string that is a value, not a key, by the result of f. Strings are passed to f as
// they are written, with their quotes.
func MapStrings(text string, f func(raw string) (string, error)) (string, error) {
	var b strings.Builder
	b.Grow(len(text) + len(text)/4) // replacements are often longer
	for i := 0; i < len(text); {
		end := tokenEnd(text, i)
		next := skipSpace(text, end)
		if text[i] == '"' && (next == len(text) || text[next] != ':') {
			s, err := f(text[i:end])
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		} else if !isSpace(text[i]) {
			b.WriteString(text[i:end])
		}
		i = next
	}
	return b.String(), nil
}
