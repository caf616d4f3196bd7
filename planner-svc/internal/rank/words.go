package rank

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"

	"github.com/kljensen/snowball/english"
)

//go:embed lexicon.txt
var lexiconText string

// lexicon is what lexicon.txt says. Its words are stems, or Chinese.
type lexicon struct {
	synonyms map[string][]string
	stop     map[string]bool
	longest  int // at least the runes of the longest Chinese word
}

var loadLexicon = sync.OnceValue(func() *lexicon {
	l := &lexicon{synonyms: map[string][]string{}, stop: map[string]bool{}}
	for line := range strings.Lines(lexiconText) {
		words := strings.Fields(line)
		for i, w := range words {
			words[i] = Stem(w)
			l.longest = max(l.longest, len(w)/3)
		}
		switch words[0] {
		case "#":
		case "-":
			for _, w := range words[1:] {
				l.stop[w] = true
			}
		default:
			for _, w := range words {
				l.synonyms[w] = append(l.synonyms[w], words...)
			}
		}
	}
	return l
})

// Synonyms returns the terms that mean the same as a term; the term may be among them.
func Synonyms(term string) []string { return loadLexicon().synonyms[term] }

// Stop reports whether a term says nothing about a tool.
func Stop(term string) bool { return loadLexicon().stop[term] }

// Terms divides a text into the terms that it is compared by: stems of English words, divided at camelCase humps too; of Chinese, the
// lexicon's words and pairs of neighbouring characters.
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

// hanTerms finds the lexicon's words in a run of Chinese characters, the longest first, and adds its pairs.
func hanTerms(run []rune) []string {
	l := loadLexicon()
	var out []string
	for i := 0; i < len(run); i++ {
		for size := min(l.longest, len(run)-i); size > 0; size-- {
			if w := string(run[i : i+size]); l.synonyms[w] != nil {
				out, i = append(out, w), i+size-1
				break
			}
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
