package workspace

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	near "pawl.dev/services/similar"
)

const (
	maxSuggestions = 3
	maxNameLength  = 255 // longer ones exist on no common file system
)

// similar returns the names most like the wrong one, best first.
func similar(wrong string, names []string) []string {
	if utf8.RuneCountInString(wrong) > maxNameLength {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range names {
		if d, ok := likeness(strings.ToLower(wrong), strings.ToLower(name)); ok {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range found[:min(len(found), maxSuggestions)] {
		best = append(best, c.name)
	}
	return best
}

// likeness is a distance between lower-case names: 0 for the same, 1 where
// only the extension differs, else the edit distance where that is about a
// third of the name at most, else a distance behind those where one holds the other.
func likeness(wrong, name string) (int, bool) {
	const holds = 100
	stem := strings.TrimSuffix(wrong, path.Ext(wrong))
	switch {
	case wrong == name:
		return 0, true
	case stem != "" && stem == strings.TrimSuffix(name, path.Ext(name)):
		return 1, true
	}
	if d := near.Distance(wrong, name); d <= (utf8.RuneCountInString(wrong)+2)/3 {
		return 1 + d, true
	}
	if len(stem) >= 3 && strings.Contains(name, stem) {
		return holds + len(name), true
	}
	return 0, false
}
