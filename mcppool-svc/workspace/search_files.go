package workspace

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"
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
		if e.info.IsDir() || !matches(below(rel, e.path)) || !s.isFile(e) {
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

// isFile accepts regular files, and symbolic links to ones inside the root.
func (s *Server) isFile(e entry) bool {
	if e.info.Mode()&fs.ModeSymlink == 0 {
		return e.info.Mode().IsRegular()
	}
	target, err := s.stat(e.path)
	return err == nil && target.Mode().IsRegular()
}

// below makes a path under the folder base relative to it.
func below(base, p string) string {
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
