package rawjson

import (
	"encoding/json"
	"iter"
	"strings"
	"unicode/utf8"
)

// The functions below take text that Check has passed, trimmed or not. Given other text they return nonsense, but they
// end and do not panic.

// Kind names the JSON type of a value: object, array, string, number, boolean or null; "" for no value.
func Kind(text string) string {
	i := skipSpace(text, 0)
	if i == len(text) {
		return ""
	}
	switch b := text[i]; {
	case b == '{':
		return "object"
	case b == '[':
		return "array"
	case b == '"':
		return "string"
	case b == 't' || b == 'f':
		return "boolean"
	case b == 'n':
		return "null"
	case b == '-' || isDigit(b):
		return "number"
	}
	return ""
}

// Members goes over an object's keys, unescaped, and values, as they are written, in the document's order. What is not an
// object has none.
func Members(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		for key, value := range RawMembers(text) {
			if !yield(Unquote(key), value) {
				return
			}
		}
	}
}

// RawMembers is Members with the keys as they are written, in their quotes.
func RawMembers(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		i := skipSpace(text, 0)
		if i == len(text) || text[i] != '{' {
			return
		}
		for i = skipSpace(text, i+1); i < len(text) && text[i] == '"'; {
			keyEnd := valueEnd(text, i)
			start := skipSpace(text, skipSpace(text, keyEnd)+1) // past the colon
			end := valueEnd(text, start)
			if start >= len(text) || !yield(text[i:keyEnd], text[start:end]) {
				return
			}
			i = skipSpace(text, skipSpace(text, end)+1) // past the comma
		}
	}
}

// Items goes over an array's values, as they are written. What is not an array has none.
func Items(text string) iter.Seq[string] {
	return func(yield func(value string) bool) {
		i := skipSpace(text, 0)
		if i == len(text) || text[i] != '[' {
			return
		}
		for i = skipSpace(text, i+1); i < len(text) && text[i] != ']'; {
			end := valueEnd(text, i)
			if !yield(text[i:end]) {
				return
			}
			i = skipSpace(text, skipSpace(text, end)+1)
		}
	}
}

// Member returns one value of an object.
func Member(text, key string) (string, bool) {
	for k, v := range Members(text) {
		if k == key {
			return v, true
		}
	}
	return "", false
}

// Text returns the content of a string value; of anything else, the text itself, trimmed.
func Text(raw string) string {
	raw = strings.Trim(raw, space)
	if strings.HasPrefix(raw, `"`) {
		return Unquote(raw)
	}
	return raw
}

// Unquote returns the content of a string as it is written.
func Unquote(raw string) string {
	if len(raw) < 2 {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return inner
	}
	return s
}

// Quote writes a string as JSON, escaping no more than JSON asks for.
func Quote(s string) string {
	if isPlain(s) {
		return `"` + s + `"`
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return `""` // cannot be: every string has a form in JSON
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// isPlain says that nothing in a string needs an escape, without a look at what is not ASCII.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Compact takes out the space between tokens and changes nothing else.
func Compact(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); {
		end := i + 1
		switch {
		case isSpace(text[i]):
			i++
			continue
		case text[i] == '"':
			end = stringEnd(text, i)
		}
		b.WriteString(text[i:end])
		i = end
	}
	return b.String()
}

// EscapePointer escapes one step of a JSON pointer.
func EscapePointer(step string) string {
	return strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1")
}

const space = " \t\r\n"

func isSpace(b byte) bool { return b == ' ' || b == '\t' || b == '\r' || b == '\n' }

func skipSpace(text string, i int) int {
	for i < len(text) && isSpace(text[i]) {
		i++
	}
	return min(i, len(text))
}

// valueEnd returns where the value that starts at i ends.
func valueEnd(text string, i int) int {
	depth := 0
	for i < len(text) {
		switch text[i] {
		case '"':
			i = stringEnd(text, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// stringEnd returns where the string that starts at i ends.
func stringEnd(text string, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
