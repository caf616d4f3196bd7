package workspace

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxAlternatives bounds the combinations of a glob's {a,b} groups, since
// matching may try them all for every file.
const maxAlternatives = 256

// pathMatcher tells whether a path, relative to the searched folder, matches.
type pathMatcher func(rel string) bool

// matchName is the matching of search_files: a glob, or without wildcards a
// part of the name in any case.
func matchName(pattern string) (pathMatcher, error) {
	if strings.ContainsAny(pattern, `*?[{\`) {
		return matchGlob(pattern)
	}
	part := strings.ToLower(strings.TrimPrefix(pattern, "./"))
	if strings.Contains(part, "/") {
		return func(rel string) bool { return strings.Contains(strings.ToLower(rel), part) }, nil
	}
	return func(rel string) bool { return strings.Contains(strings.ToLower(path.Base(rel)), part) }, nil
}

// matchGlob is the matching of a glob. Without a slash it is compared with the
// base name, as ripgrep and .gitignore do; "./" or "/" in front ties it to the
// searched folder.
func matchGlob(pattern string) (pathMatcher, error) {
	if err := checkGlob(pattern); err != nil {
		return nil, fmt.Errorf("the glob %q cannot be used: %w", pattern, err)
	}
	if !strings.Contains(pattern, "/") {
		return func(rel string) bool { return doublestar.MatchUnvalidated(pattern, path.Base(rel)) }, nil
	}
	anchored, dotted := strings.CutPrefix(pattern, "./")
	if !dotted {
		anchored = strings.TrimPrefix(pattern, "/")
	}
	return func(rel string) bool { return doublestar.MatchUnvalidated(anchored, rel) }, nil
}

func checkGlob(pattern string) error {
	if !doublestar.ValidatePattern(pattern) {
		return errors.New("a bracket or brace is not closed, or a backslash ends it: close it, or put a backslash before it to mean it literally")
	}
	if alternatives(pattern) > maxAlternatives {
		return fmt.Errorf("its braces have more than %d combinations: use fewer, or several searches", maxAlternatives)
	}
	return nil
}

// alternatives is an upper bound of the combinations of the brace groups.
func alternatives(pattern string) int {
	total, group, depth := 1, 1, 0
	for i := 0; i < len(pattern) && total*group <= maxAlternatives; i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '{':
			depth++
			group++
		case ',':
			if depth > 0 {
				group++
			}
		case '}':
			if depth--; depth <= 0 {
				total, group, depth = total*group, 1, 0
			}
		}
	}
	return total * group
}
