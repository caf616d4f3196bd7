package catalog

import (
	"strings"
	"unicode"
)

// NameParts divides a name or text into lower-case words, at spaces and punctuation and at camelCase humps.
func NameParts(text string) []string {
	var out []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			out = append(out, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	var prev rune
	for _, r := range text {
		latin := r < 0x250 && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !latin || unicode.IsUpper(r) && unicode.IsLower(prev) {
			flush()
		}
		if latin {
			b.WriteRune(r)
		}
		prev = r
	}
	flush()
	return out
}

// ContainsWord tells whether a text holds a word, not as a part of a longer one. Both are in the same case.
func ContainsWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if !IsWordByte(text, start-1) && !IsWordByte(text, end) {
			return true
		}
		from = end
	}
}

// IsWordByte tells whether a letter, digit or underscore stands at a place of a text; false outside of it.
func IsWordByte(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}
