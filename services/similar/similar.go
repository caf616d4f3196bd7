// Package similar finds the known names that are most like an unknown one. It must not know what the names stand for.
package similar

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxSuggestions = 3
	// maxLen bounds the names that are compared, in bytes: comparing two costs the product of their lengths.
	maxLen = 256
	// maxNames bounds how many names are compared.
	maxNames = 10_000
)

// Names returns up to three of the names that are most similar to a wrong one, the best first. They differ from it in at most a third
// of its letters; case, underscores, hyphens and spaces do not count ("startLine" matches "start_line").
func Names(wrong string, names []string) []string {
	if len(wrong) > maxLen {
		return nil
	}
	distances := map[string]int{}
	folded := fold(wrong)
	for _, name := range names[:min(len(names), maxNames)] {
		if name == wrong || len(name) > maxLen {
			continue
		}
		if d := Distance(folded, fold(name)); d <= utf8.RuneCountInString(folded)/3 {
			distances[name] = d
		}
	}
	best := slices.SortedFunc(maps.Keys(distances), func(a, b string) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return best[:min(len(best), maxSuggestions)]
}

// fold removes the differences between spellings of one name: case, underscores, hyphens and spaces.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// Distance returns the Levenshtein distance of two texts: the fewest insertions, deletions and replacements of runes that turn one into
// the other. Its cost is the product of their lengths.
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := range x {
		diagonal := row[0]
		row[0] = i + 1
		for j := range y {
			cost := diagonal
			if x[i] != y[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(y)]
}
