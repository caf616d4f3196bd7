package ui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes s harmless for a terminal and keeps its lines: escape sequences, other control characters and the
// characters that reorder text are shown instead of obeyed.
func Text(s string) string {
	return clean(s, func(r rune) (rune, bool) { return r, r == '\n' || r == '\t' })
}

// Line is Text on one line: line ends and tabs become spaces.
func Line(s string) string {
	return clean(s, func(r rune) (rune, bool) { return ' ', r == '\n' || r == '\t' })
}

// clean shows what is harmful; space says which white space is taken as what.
func clean(s string, space func(rune) (rune, bool)) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, harmful) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b strings.Builder
	for i, r := range s {
		if as, ok := space(r); ok {
			b.WriteRune(as)
			continue
		}
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !harmful(r):
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r) // the pictures of control characters: ESC is ␛
		case r == 0x7f:
			b.WriteRune('␡')
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// harmful says whether a terminal obeys r, or r makes text read otherwise than it is.
func harmful(r rune) bool {
	switch {
	case unicode.IsControl(r): // C0, DEL and C1
		return true
	case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
		return true // bidirectional overrides, isolates and marks
	case r == 0x2028, r == 0x2029:
		return true // line and paragraph separators
	case r == 0x200b, r == 0x2060, r == 0xfeff:
		return true // no width, so two inputs that differ would look the same
	}
	return r >= 0xe0000 && r <= 0xe007f // tag characters: invisible text
}
