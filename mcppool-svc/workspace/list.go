package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
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

// sizeOf returns the size of a regular file, and 0 for others.
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

// maxCountedBytes is the size up to which get_file_info counts lines.
const maxCountedBytes = 16 << 20

type infoInput struct {
	Path string `json:"path"`
}

type infoOutput struct {
	Path       string `json:"path"`
	Type       string `json:"type"`
	Size       int64  `json:"size"`
	Mode       string `json:"mode"`
	Modified   string `json:"modified"`
	Lines      *int   `json:"lines,omitempty"`
	MIMEType   string `json:"mime_type"`
	LinkTarget string `json:"link_target,omitempty"`
	SHA256     string `json:"sha256,omitempty"`
}

func (s *Server) getFileInfo(ctx context.Context, in infoInput, _ reporter) (infoOutput, error) {
	rel, err := s.locate(in.Path)
	if err != nil {
		return infoOutput{}, err
	}
	info, err := s.stat(rel)
	if err != nil {
		return infoOutput{}, s.explain(rel, err)
	}
	out := infoOutput{
		Path:     rel,
		Type:     kindOf(info.Mode()).typ,
		Size:     sizeOf(info),
		Mode:     info.Mode().String(),
		Modified: info.ModTime().UTC().Format(time.RFC3339),
		MIMEType: kindOf(info.Mode()).mime,
	}
	// stat succeeded, so a link at rel leads to a place inside the root and may be shown.
	if target, err := s.root.Readlink(filepath.FromSlash(rel)); err == nil {
		out.LinkTarget = filepath.ToSlash(target)
	}
	if !info.Mode().IsRegular() {
		return out, nil
	}
	if err := s.describeContent(ctx, &out); err != nil {
		return infoOutput{}, err
	}
	return out, nil
}

// describeContent fills in the MIME type, and the number of lines of a text up to
// maxCountedBytes. Without permission to read the file it changes nothing.
func (s *Server) describeContent(ctx context.Context, out *infoOutput) error {
	f, _, err := openRegular(s.root, out.Path)
	if os.IsPermission(err) {
		return nil
	}
	if err != nil {
		return s.explain(out.Path, err)
	}
	defer func() { _ = f.Close() }()
	head, err := sniff(f)
	if err != nil {
		return s.explain(out.Path, err)
	}
	out.MIMEType = mimeType(out.Path, head)
	if s.options.Write && out.Size <= maxFullScan {
		hash := sha256.New()
		if _, err := io.Copy(hash, io.NewSectionReader(f, 0, maxFullScan)); err != nil {
			return s.explain(out.Path, err)
		}
		out.SHA256 = hex.EncodeToString(hash.Sum(nil))
	}
	if isBinary(head) || out.Size > maxCountedBytes {
		return nil
	}
	lines, err := countLines(ctx, f)
	if err != nil {
		return s.explain(out.Path, err)
	}
	out.Lines = &lines
	return nil
}

func (o infoOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "path: %s\ntype: %s\nsize: %s\nmode: %s\nmodified: %s\nmime type: %s",
		o.Path, o.Type, plural(o.Size, "byte", "bytes"), o.Mode, o.Modified, o.MIMEType)
	if o.Lines != nil {
		fmt.Fprintf(&b, "\nlines: %d", *o.Lines)
	}
	if o.LinkTarget != "" {
		fmt.Fprintf(&b, "\nlink target: %s", o.LinkTarget)
	}
	if o.SHA256 != "" {
		fmt.Fprintf(&b, "\nsha256: %s", o.SHA256)
	}
	return b.String()
}
