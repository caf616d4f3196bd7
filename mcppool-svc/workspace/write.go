package workspace

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	// maxWriteBytes bounds what one call writes.
	maxWriteBytes = 16 << 20
	// maxChangedBytes bounds the files that tools change, move or delete, and back up. They are read into memory.
	maxChangedBytes = 64 << 20
)

// checkBase returns an error unless base is the hash of the file now at rel. It protects changes that the caller has not seen.
func (s *Server) checkBase(rel, base string, now *file) error {
	switch {
	case now == nil && base == "":
		return nil
	case now == nil:
		return fmt.Errorf("%w; leave base_sha256 out to create it", s.missing(rel))
	case now.isDir():
		return fmt.Errorf("%q is a directory: name a file", rel)
	case base == "":
		return fmt.Errorf("%q exists; read it first and give its sha256 as base_sha256, so that no other change is lost (it is %s now)", rel, now.sum)
	case !strings.EqualFold(base, now.sum):
		return changedError(rel, now.sum)
	}
	return nil
}

// checkParent returns an error if the folder of rel does not exist and may not be made.
func (s *Server) checkParent(rel string, create bool) error {
	if parent := path.Dir(rel); parent != "." && !create {
		if found, err := s.read(parent); err != nil || found == nil {
			return fmt.Errorf("the folder %q does not exist: set create_dirs to make it, or choose another path", parent)
		}
	}
	return nil
}

type writeInput struct {
	Path       string `json:"path"`
	Content    string `json:"content"`
	BaseSHA256 string `json:"base_sha256"`
	CreateDirs bool   `json:"create_dirs"`
}

func (s *Server) planWrite(_ context.Context, in writeInput) (plan, error) {
	rel, err := s.locateChange(in.Path)
	if err != nil {
		return plan{}, err
	}
	if len(in.Content) > maxWriteBytes {
		return plan{}, fmt.Errorf("content has %d bytes, and at most %d MiB can be written", len(in.Content), maxWriteBytes>>20)
	}
	now, err := s.read(rel)
	if err != nil {
		return plan{}, err
	}
	e := edit{path: rel, before: now, after: newFile([]byte(in.Content), nil)}
	if now != nil {
		if e.after.info = now.info; e.after.sum == now.sum {
			return plan{}, nil // also a repeated call
		}
	}
	if err := s.checkBase(rel, in.BaseSHA256, now); err != nil {
		return plan{}, err
	}
	if now != nil && strings.ContainsRune(in.Content, utf8.RuneError) && !utf8.Valid(now.data) {
		return plan{}, fmt.Errorf("%q is not in UTF-8, and content has U+FFFD for bytes that read_file could not show: change lines without such bytes with apply_patch", rel)
	}
	if err := s.checkParent(rel, in.CreateDirs); err != nil {
		return plan{}, err
	}
	return plan{edits: []edit{e}, note: diffNote(e)}, nil
}

const (
	maxDiffedBytes = 1 << 20
	maxDiffLines   = 200
	maxDiffLine    = 500
)

// diffNote returns the beginning of the diff of a changed text file.
func diffNote(e edit) string {
	if e.before == nil || len(e.before.data)+len(e.after.data) > maxDiffedBytes || !utf8.Valid(e.before.data) || !utf8.Valid(e.after.data) {
		return ""
	}
	_, text, _ := bytes.Cut(diff.Diff("a/"+e.path, e.before.data, "b/"+e.path, e.after.data), []byte{'\n'})
	lines := strings.SplitAfterN(string(text), "\n", maxDiffLines+1)
	if len(lines) > maxDiffLines {
		lines[maxDiffLines] = "… (the diff is longer)"
	}
	for i, line := range lines {
		if len(line) > maxDiffLine {
			lines[i] = string(cutRunes([]byte(line), maxDiffLine)) + "…\n"
		}
	}
	return "\n\n" + strings.Join(lines, "")
}

type deleteInput struct {
	Path       string `json:"path"`
	BaseSHA256 string `json:"base_sha256"`
}

func (s *Server) planDelete(_ context.Context, in deleteInput) (plan, error) {
	rel, err := s.locateChange(in.Path)
	if err != nil {
		return plan{}, err
	}
	now, err := s.read(rel)
	switch {
	case err != nil:
		return plan{}, err
	case now == nil:
		return plan{}, s.missing(rel)
	case !now.isDir():
		err = s.checkBase(rel, in.BaseSHA256, now)
	case len(s.names(rel)) > 0:
		err = fmt.Errorf("the folder %q is not empty: delete or move what is in it first", rel)
	}
	return plan{edits: []edit{{path: rel, before: now}}}, err
}

type createDirectoryInput struct {
	Path string `json:"path"`
}

func (s *Server) planCreateDirectory(_ context.Context, in createDirectoryInput) (p plan, err error) {
	rel, err := s.locateChange(in.Path)
	if err != nil {
		return plan{}, err
	}
	at := ""
	for part := range strings.SplitSeq(rel, "/") {
		at = path.Join(at, part)
		now, err := s.read(at)
		switch {
		case err != nil:
			return plan{}, err
		case now == nil:
			p.edits = append(p.edits, edit{path: at, after: &file{}})
		case !now.isDir():
			return plan{}, fmt.Errorf("%q is a file: choose another name", at)
		}
	}
	return p, nil
}

type moveInput struct {
	Path       string `json:"path"`
	To         string `json:"to"`
	BaseSHA256 string `json:"base_sha256"`
	CreateDirs bool   `json:"create_dirs"`
}

func (s *Server) planMove(_ context.Context, in moveInput) (plan, error) {
	from, err := s.locateChange(in.Path)
	if err != nil {
		return plan{}, err
	}
	to, err := s.locateChange(in.To)
	if err != nil {
		return plan{}, err
	}
	moved, err := s.read(from)
	switch {
	case err != nil:
		return plan{}, err
	case moved == nil:
		return plan{}, s.missing(from)
	case moved.isDir():
		return plan{}, fmt.Errorf("%q is a directory: move the files in it one by one", from)
	}
	target, err := s.read(to)
	if err != nil {
		return plan{}, err
	}
	if target != nil && from == to {
		return plan{}, nil
	}
	if err := s.checkBase(to, in.BaseSHA256, target); err != nil {
		return plan{}, err
	}
	if err := s.checkParent(to, in.CreateDirs); err != nil {
		return plan{}, err
	}
	return plan{edits: []edit{{path: to, from: from, before: target, after: moved}, {path: from, before: moved}}}, nil
}
