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
	// most is how many names are suggested.
	most = 3
	// longest is the longest name that is compared; comparing costs the product of the lengths.
	longest = 256
	// mostNames bounds the names that are compared.
	mostNames = 10_000
)

// Names returns those of the names that are most like one that is not among them, the best first: spelt with a few other letters, a
// third of them at most, or in another way ("startLine" for "start_line").
func Names(wrong string, names []string) []string {
	if len(wrong) > longest {
		return nil
	}
	distances := map[string]int{}
	folded := fold(wrong)
	for _, name := range names[:min(len(names), mostNames)] {
		if name == wrong || len(name) > longest {
			continue
		}
		if d := Distance(folded, fold(name)); d <= utf8.RuneCountInString(folded)/3 {
			distances[name] = d
		}
	}
	best := slices.SortedFunc(maps.Keys(distances), func(a, b string) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return best[:min(len(best), most)]
}

// fold leaves out the differences between spellings of one name: case, underscores, hyphens and spaces.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// Distance is Levenshtein's: the insertions, deletions and replacements of runes between two texts. It costs the product of their lengths.
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
