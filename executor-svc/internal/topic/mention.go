package topic

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Mentioned returns the names of the participants that a message mentions, in its list or as `@name` in its text. Names are compared without regard to case.
func Mentioned(t *storagev1.Topic, m *storagev1.TopicMessage) (names []string) {
	inText := textMentions(t, m.GetText())
	for _, p := range t.GetParticipants() {
		is := func(name string) bool { return strings.EqualFold(name, p.GetName()) }
		if slices.ContainsFunc(m.GetMentions(), is) || slices.Contains(inText, p.GetName()) {
			names = append(names, p.GetName())
		}
	}
	return names
}

// textMentions returns the names that follow an @ in a text. An @ within a word, as in an address of mail, is none.
func textMentions(t *storagev1.Topic, text string) (names []string) {
	before := ' '
	for i, r := range text {
		if r == '@' && !isWord(before) {
			if name := longestName(t, text[i+1:]); name != "" {
				names = append(names, name)
			}
		}
		before = r
	}
	return names
}

// longestName returns the longest name of a participant with which a text begins; "" if there is none.
func longestName(t *storagev1.Topic, text string) (longest string) {
	for _, p := range t.GetParticipants() {
		name := p.GetName()
		if len(name) <= len(longest) || len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
			continue
		}
		rest := strings.TrimLeft(text[len(name):], "._-") // a name may contain these, so @bob-smith does not mention bob
		last, _ := utf8.DecodeLastRuneInString(name)
		if next, _ := utf8.DecodeRuneInString(rest); rest == "" || !isWord(next) || withoutSpaces(last) || withoutSpaces(next) {
			longest = name
		}
	}
	return longest
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// withoutSpaces reports whether a rune belongs to a script that writes no spaces between words.
func withoutSpaces(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}
