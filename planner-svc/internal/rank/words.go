package rank

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

//go:embed lexicon.txt
var lexiconText string

// entry names a word or a key within a class of lexicon.txt.
type entry struct{ class, word string }

// lexicon is the content of lexicon.txt.
type lexicon struct {
	keys    map[entry]string   // by word and by stem: its key
	words   map[entry][]string // by the key's stem: the stems of its words; in the class syn, each word is a key
	longest int                // an upper bound of the characters of a Chinese word
}

var loadLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{keys: map[entry]string{}, words: map[entry][]string{}}
	for line := range strings.Lines(lexiconText) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] == "#" {
			continue
		}
		var stems []string
		for _, w := range f[2:] {
			l.longest = max(l.longest, len(w)/3)
			stems = append(stems, Stem(w))
		}
		keys := stems
		if f[0] != "syn" {
			keys = strings.Split(f[1], "|")
		}
		for _, key := range keys {
			l.words[entry{f[0], Stem(key)}] = append(l.words[entry{f[0], Stem(key)}], stems...)
			for i, w := range f[2:] {
				l.keys[entry{f[0], w}], l.keys[entry{f[0], stems[i]}] = key, key
			}
		}
	}
	return l
})

// In reports whether a word or stem is in a class of words.
func In(class, word string) bool { return loadLexicon().keys[entry{class, word}] != "" }

// Key returns the key of a word in a class, or "".
func Key(class, word string) string { return loadLexicon().keys[entry{class, strings.ToLower(word)}] }

// Words returns the stems of a key's words in a class. The key is given as its stem.
func Words(class, keyStem string) []string { return loadLexicon().words[entry{class, keyStem}] }

// Synonyms returns the terms with the same meaning as a term, which may be among them.
func Synonyms(term string) []string { return Words("syn", term) }

// Means reports whether two terms mean the same.
func Means(a, b string) bool { return a == b || slices.Contains(Synonyms(a), b) }

// Has reports whether terms holds a term or a synonym of it.
func Has(terms map[string]bool, term string) bool {
	return terms[term] || slices.ContainsFunc(Synonyms(term), func(s string) bool { return terms[s] })
}

// Stop reports whether a term is a stop word.
func Stop(term string) bool { return In("stop", term) }

// Terms divides a text into comparable terms: the stems of English words and of the parts of camelCase words; for Chinese, the words that have
// synonyms and all pairs of neighbouring characters.
func Terms(text string) []string {
	var out []string
	runes := []rune(text)
	for i := 0; i < len(runes); {
		r, j := runes[i], i+1
		switch {
		case unicode.Is(unicode.Han, r):
			for j < len(runes) && unicode.Is(unicode.Han, runes[j]) {
				j++
			}
			out = append(out, hanTerms(runes[i:j])...)
		case wordRune(r):
			for j < len(runes) && wordRune(runes[j]) && (!unicode.IsUpper(runes[j]) || !unicode.IsLower(runes[j-1])) {
				j++
			}
			out = append(out, Stem(string(runes[i:j])))
		}
		i = j
	}
	return out
}

// Stem returns the term of one word.
func Stem(word string) string { return english.Stem(word, false) }

// ChineseWord returns the longest known Chinese word that a text begins with, "" if there is none.
func ChineseWord(text string, known func(string) bool) (word string) {
	n := 0
	for i, r := range text {
		if n++; n > loadLexicon().longest || !unicode.Is(unicode.Han, r) {
			break
		}
		if w := text[:i+utf8.RuneLen(r)]; known(w) {
			word = w
		}
	}
	return word
}

// hanTerms returns the words with synonyms in a run of Chinese characters, preferring long ones, and all pairs of neighbouring characters.
func hanTerms(run []rune) []string {
	var out []string
	for i := 0; i < len(run); i++ {
		next := run[i:min(len(run), i+loadLexicon().longest)]
		if w := ChineseWord(string(next), func(w string) bool { return Synonyms(w) != nil }); w != "" {
			out, i = append(out, w), i+utf8.RuneCountInString(w)-1
		}
	}
	for i := range len(run) - 1 {
		out = append(out, string(run[i:i+2]))
	}
	return out
}

// wordRune reports whether a rune belongs to a word that is not Chinese.
func wordRune(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.Is(unicode.Han, r)
}
