// Package lang decides whether a person reads English or Chinese, and picks the matching wording. It knows no task,
// no tool and no model; code that writes for people holds both wordings side by side.
package lang

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
)

// Lang is a language that people read.
type Lang string

// The languages.
const (
	EN Lang = "en"
	ZH Lang = "zh"
)

// Of returns the declared language. If none was declared, it returns Chinese for a text with more Chinese characters than words in Latin letters,
// else English.
func Of(declared commonv1.Language, text string) Lang {
	han := 0
	for _, r := range text {
		if unicode.Is(unicode.Han, r) {
			han++
		}
	}
	chinese := han > len(latinWord.FindAllString(text, -1))
	if declared == commonv1.Language_LANGUAGE_ZH || declared != commonv1.Language_LANGUAGE_EN && chinese {
		return ZH
	}
	return EN
}

var latinWord = regexp.MustCompile(`[A-Za-z\x{C0}-\x{FF}][\w.\x{C0}-\x{FF}/'-]*`)

// Say formats the wording of the language. Both wordings take the same arguments, which the verbs may select by index.
func (l Lang) Say(en, zh string, args ...any) string {
	return fmt.Sprintf(l.Pick(en, zh), args...)
}

// Pick returns the wording of the language.
func (l Lang) Pick(en, zh string) string {
	if l == ZH {
		return zh
	}
	return en
}

// Plural returns the English noun for n things; Chinese nouns do not change.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// List joins items as the language does: "a, b" and "a、b".
func (l Lang) List(items []string) string {
	return strings.Join(items, l.Pick(", ", "、"))
}

// Clip shortens a text to at most limit characters. It cuts at a nearby space, if any, and adds an ellipsis.
func Clip(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	cut := string(runes[:limit-1])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,，、;；:：") + "…"
}

// Title makes a short title from a text: at most 40 characters, beginning with a capital letter, without a full stop.
func Title(s string) string {
	s = strings.TrimRight(strings.Join(strings.Fields(s), " "), ".。!！?？;； ")
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return Clip(string(unicode.ToUpper(r))+s[size:], 40)
}
