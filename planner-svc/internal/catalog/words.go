package catalog

import (
	"regexp"
	"strings"
	"unicode"
)

// hump is where a word of camelCase begins.
var hump = regexp.MustCompile(`(\p{Ll})(\p{Lu})`)

// NameParts divides a name or text into lower-case words, at spaces and punctuation and at camelCase humps.
func NameParts(text string) []string {
	return strings.FieldsFunc(strings.ToLower(hump.ReplaceAllString(text, "$1 $2")), func(r rune) bool {
		return r >= 0x250 || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// ContainsWord tells whether a text holds a word, not as a part of a longer one. Both are in the same case.
func ContainsWord(text, word string) bool {
	return regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(word) + `(\W|$)`).MatchString(text)
}

// IsWordByte tells whether a letter, digit or underscore stands at a place of a text; false outside of it.
func IsWordByte(s string, i int) bool {
	return i >= 0 && i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z')
}
