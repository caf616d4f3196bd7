package workspace

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"strings"
)

type listInput struct {
	Path       string `json:"path"`
	Recursive  bool   `json:"recursive"`
	MaxEntries int    `json:"max_entries"`
}

type listOutput struct {
	Path       string      `json:"path"`
	Entries    []listEntry `json:"entries"`
	Truncated  bool        `json:"truncated"`
	Unreadable int         `json:"unreadable,omitempty"`
}

type listEntry struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

func (s *Server) listDirectory(ctx context.Context, in listInput, report reporter) (listOutput, error) {
	rel, err := s.locate(in.Path)
	if err != nil {
		return listOutput{}, err
	}
	limit := cmp.Or(in.MaxEntries, 1000)
	out := listOutput{Path: rel, Entries: []listEntry{}}
	w := walk{limit: s.walkLimit, flat: !in.Recursive, report: report}
	err = s.walk(ctx, &w, rel, func(e entry) error {
		if len(out.Entries) == limit {
			out.Truncated = true
			return fs.SkipAll
		}
		out.Entries = append(out.Entries, listEntry{
			Name: e.name, Path: e.path, Type: kindOf(e.info.Mode()).typ, Size: sizeOf(e.info),
		})
		return nil
	})
	if err != nil {
		return listOutput{}, err
	}
	out.Truncated = out.Truncated || w.exhausted
	out.Unreadable = w.unreadable
	return out, nil
}

// sizeOf is 0 for what is not a file: the size of a folder says nothing.
func sizeOf(info fs.FileInfo) int64 {
	if info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

func (o listOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %q", plural(len(o.Entries), "entry", "entries"), o.Path)
	if o.Truncated {
		b.WriteString(" (there are more: list a folder below, or raise max_entries)")
	}
	if o.Unreadable > 0 {
		fmt.Fprintf(&b, " (%s could not be read)", plural(o.Unreadable, "folder", "folders"))
	}
	for _, e := range o.Entries {
		switch e.Type {
		case "directory":
			fmt.Fprintf(&b, "\n%s/", e.Path)
		case "file":
			fmt.Fprintf(&b, "\n%s  %s", e.Path, plural(e.Size, "byte", "bytes"))
		default:
			fmt.Fprintf(&b, "\n%s  (%s)", e.Path, e.Type)
		}
	}
	return b.String()
}

func plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
