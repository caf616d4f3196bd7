package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

type searchFilesInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	MaxResults int    `json:"max_results"`
}

type searchFilesOutput struct {
	Pattern    string   `json:"pattern"`
	Files      []string `json:"files"`
	Count      int      `json:"count"`
	Truncated  bool     `json:"truncated"`
	Unreadable int      `json:"unreadable,omitempty"`
}

func (s *Server) searchFiles(ctx context.Context, in searchFilesInput, report reporter) (searchFilesOutput, error) {
	matches, err := matchName(in.Pattern)
	if err != nil {
		return searchFilesOutput{}, err
	}
	rel, err := s.locate(in.Path)
	if err != nil {
		return searchFilesOutput{}, err
	}
	limit := cmp.Or(in.MaxResults, 1000)
	out := searchFilesOutput{Pattern: in.Pattern, Files: []string{}}
	w := walk{limit: s.walkLimit, report: report}
	err = s.walk(ctx, &w, rel, func(e entry) error {
		if e.info.IsDir() || !matches(relativeTo(rel, e.path)) || !s.isFile(e) {
			return nil
		}
		if out.Count++; len(out.Files) < limit {
			out.Files = append(out.Files, e.path)
		}
		return nil
	})
	if err != nil {
		return searchFilesOutput{}, err
	}
	out.Truncated = w.exhausted || out.Count > len(out.Files)
	out.Unreadable = w.unreadable
	return out, nil
}

// isFile reports whether an entry is a regular file, or a symbolic link to one inside the root.
func (s *Server) isFile(e entry) bool {
	if e.info.Mode()&fs.ModeSymlink == 0 {
		return e.info.Mode().IsRegular()
	}
	target, err := s.stat(e.path)
	return err == nil && target.Mode().IsRegular()
}

// relativeTo returns the path p, which is in the folder base, relative to base.
func relativeTo(base, p string) string {
	if base == "." {
		return p
	}
	return strings.TrimPrefix(p, base+"/")
}

func (o searchFilesOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s found for %q", plural(o.Count, "file", "files"), o.Pattern)
	if o.Count > len(o.Files) {
		fmt.Fprintf(&b, " (the first %d are shown)", len(o.Files))
	} else if o.Truncated {
		b.WriteString(" (the search ended early at its limit: search a smaller folder)")
	}
	if o.Unreadable > 0 {
		fmt.Fprintf(&b, " (%s could not be read)", plural(o.Unreadable, "folder", "folders"))
	}
	for _, f := range o.Files {
		b.WriteString("\n" + f)
	}
	return b.String()
}

// maxAlternatives bounds the combinations of a glob's {a,b} groups, because
// matching may try all of them for every file.
const maxAlternatives = 256

// pathMatcher reports whether a path, relative to the searched folder, matches.
type pathMatcher func(rel string) bool

// matchName returns the matcher of search_files. A pattern with wildcards is a
// glob. Any other pattern matches a part of the name, or of the path if the
// pattern contains a slash; letter case is ignored.
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

// matchGlob returns the matcher of a glob. A glob without a slash is compared
// with the base name, as in ripgrep and .gitignore; "./" or "/" at its beginning
// anchors it to the searched folder.
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
		return errors.New("a bracket or brace is not closed, or the last character is a backslash: close it, or put a backslash before a literal character")
	}
	if alternatives(pattern) > maxAlternatives {
		return fmt.Errorf("its braces have more than %d combinations: use fewer, or several searches", maxAlternatives)
	}
	return nil
}

// alternatives returns an upper bound for the combinations of the brace groups,
// or a number above maxAlternatives.
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
