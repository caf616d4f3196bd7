package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
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
	return T(unescape(raw))
}

// UnquoteString is Unquote that always returns a copy, as a string.
func UnquoteString(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(Unquote(raw))
	}
	return unescape(raw)
}

// unescape returns the value of a JSON string literal. It allocates no more than the literal's size, because some are large.
func unescape[T Text](raw T) string {
	value, _ := jsontext.AppendUnquote(make([]byte, 0, len(raw)), raw) // the error reports invalid UTF-8, which is replaced
	return unsafe.String(unsafe.SliceData(value), len(value))          //nolint:gosec // value is not used again
}

// Quote writes a string as JSON in one line. Characters that matter only to HTML are not escaped. Invalid UTF-8 is replaced.
func Quote(s string) string {
	var b strings.Builder
	b.Grow(QuotedSize(s))
	WriteQuoted(&b, s)
	return b.String()
}

// quotedPiece is how many bytes of a string WriteQuoted converts at once.
const quotedPiece = 32 << 10

// WriteQuoted writes a string as Quote does, in pieces, so that a large string is not copied once more.
func WriteQuoted(b *strings.Builder, s string) {
	b.WriteByte('"')
	var quoted []byte
	for len(s) > 0 {
		n := min(len(s), quotedPiece)
		for n < len(s) && !utf8.RuneStart(s[n]) {
			n++ // invalid UTF-8 may have no further beginning of a character
		}
		quoted, _ = jsontext.AppendQuote(quoted[:0], s[:n]) // the error reports invalid UTF-8, which is replaced
		b.Write(quoted[1 : len(quoted)-1])
		s = s[n:]
	}
	b.WriteByte('"')
}

// QuotedSize returns the size of a string as JSON. It is exact unless the string has rare control characters or invalid UTF-8.
func QuotedSize(s string) int {
	n := len(s) + len(`""`)
	for _, escaped := range []string{`"`, `\`, "\n", "\t", "\r"} {
		n += strings.Count(s, escaped)
	}
	return n
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
