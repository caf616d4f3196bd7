package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// maxPatchedFiles bounds the files of one patch, so that callers can record all of them.
const maxPatchedFiles = 500

type patchInput struct {
	Patch string `json:"patch"`
}

// planPatch checks a unified diff against the files and plans all its changes.
func (s *Server) planPatch(_ context.Context, in patchInput) (p plan, err error) {
	if len(in.Patch) > maxWriteBytes {
		return plan{}, fmt.Errorf("the patch has %d bytes, and at most %d MiB are taken", len(in.Patch), maxWriteBytes>>20)
	}
	files, _, err := gitdiff.Parse(strings.NewReader(normalizePatch(in.Patch)))
	if err != nil {
		return plan{}, fmt.Errorf("the patch is not a unified diff: %s", strings.TrimPrefix(err.Error(), "gitdiff: "))
	}
	if len(files) == 0 {
		return plan{}, errors.New("the patch changes no file: give a unified diff with \"--- a/FILE\", \"+++ b/FILE\" and \"@@ -LINE,COUNT +LINE,COUNT @@\" lines")
	}
	if len(files) > maxPatchedFiles {
		return plan{}, fmt.Errorf("the patch changes %d files, and at most %d are taken: split it", len(files), maxPatchedFiles)
	}
	total := 0
	for _, f := range files {
		edits, err := s.planPatchedFile(f)
		if err != nil {
			return plan{}, err
		}
		for _, e := range edits {
			if slices.ContainsFunc(p.edits, func(other edit) bool { return other.path == e.path }) {
				return plan{}, fmt.Errorf("the patch changes %q twice: put its hunks under one header", e.path)
			}
			if e.after != nil {
				total += len(e.after.data)
			}
		}
		if p.edits = append(p.edits, edits...); total > maxChangedBytes {
			return plan{}, fmt.Errorf("the files of the patch have more than %d MiB: split it", maxChangedBytes>>20)
		}
	}
	return p, nil
}

// planPatchedFile plans the changes of one file of a patch.
func (s *Server) planPatchedFile(f *gitdiff.File) ([]edit, error) {
	if err := checkHeader(f); err != nil {
		return nil, err
	}
	source, old, err := s.patchedFile(f.OldName, true)
	if err != nil {
		return nil, err
	}
	e := edit{path: source, before: old}
	if f.NewName != "" && f.NewName != f.OldName {
		if e.path, e.before, err = s.patchedFile(f.NewName, false); err != nil {
			return nil, err
		}
	}
	if old == nil {
		old = &file{}
	}
	text, err := applyHunks(e.path, old.data, f.TextFragments)
	switch {
	case err != nil:
		return nil, err
	case f.IsDelete && len(text) > 0:
		return nil, fmt.Errorf("the patch deletes %q, but does not remove all its lines: read the file again", e.path)
	case f.IsDelete:
		return []edit{e}, nil
	}
	e.after = newFile(text, old.info)
	if f.NewMode != 0 {
		exec := f.NewMode&0o111 != 0
		e.after.exec = &exec
	}
	if f.IsRename && e.path != source {
		e.from = source
		return []edit{e, {path: source, before: old}}, nil
	}
	return []edit{e}, nil
}

// checkHeader refuses what is not supported. It clears the name of a file that does not exist before or after the patch.
func checkHeader(f *gitdiff.File) error {
	for _, mode := range []fs.FileMode{f.OldMode, f.NewMode} {
		if f.IsBinary || mode != 0 && mode>>12 != 0o10 { // a regular file, in git
			return fmt.Errorf("the patch of %q is not of a text file: patches of binary files and links are not supported", cmp.Or(f.NewName, f.OldName))
		}
	}
	const none = "/dev/null"
	if f.IsNew = f.IsNew || f.OldName == none; f.IsNew {
		f.OldName = ""
	}
	if f.IsDelete = f.IsDelete || f.NewName == none; f.IsDelete {
		f.NewName = ""
	}
	if f.IsNew && f.IsDelete {
		return errors.New("a header of the patch names no file")
	}
	if f.OldName != f.NewName && !f.IsNew && !f.IsDelete && !f.IsRename && !f.IsCopy {
		return fmt.Errorf("a header of the patch names both %q and %q: to rename a file, use git's lines \"rename from\" and \"rename to\"", f.OldName, f.NewName)
	}
	return nil
}

// patchedFile reads a file that a patch names, which must exist or must not. It returns no file for no name.
func (s *Server) patchedFile(name string, exists bool) (string, *file, error) {
	if name == "" {
		return "", nil, nil
	}
	rel, err := s.locateChange(name)
	if err != nil {
		return "", nil, err
	}
	now, err := s.read(rel)
	switch {
	case err != nil:
		return rel, nil, err
	case now == nil && exists:
		return rel, nil, s.missing(rel)
	case now == nil:
		return rel, nil, nil
	case !exists:
		return rel, nil, fmt.Errorf("%q exists already: the patch would overwrite it", rel)
	case now.isDir():
		return rel, nil, fmt.Errorf("%q is a directory", rel)
	}
	return rel, now, nil
}

// applyHunks applies hunks to a text. Removed and context lines must match exactly; a hunk may lie at another line than its header says.
func applyHunks(rel string, text []byte, hunks []*gitdiff.TextFragment) ([]byte, error) {
	// Every line begins after a line end, so that a match of hunks that begin with one is a match of whole lines.
	text = append([]byte{'\n'}, text...)
	crlf := bytes.Contains(text, []byte("\r\n")) && bytes.Count(text, []byte("\r\n")) == bytes.Count(text[1:], []byte{'\n'})
	out := []byte{'\n'}
	done, shift := 0, 0 // the end of what is in out, less the line end; how many lines the last hunk was from its line
	for i, hunk := range hunks {
		before, after := sides(hunk, crlf)
		if len(before) == 1 && len(text) > 1 {
			return nil, fmt.Errorf("hunk %d of %q has no context: include an unchanged line before or after its lines", i+1, rel)
		}
		line := max(int(hunk.OldPosition)-1, 0) // from 0
		want := max(lineStart(text, line+shift), done)
		at := nearest(text, before, done, want)
		if at != want && len(after) > 1 && bytes.HasPrefix(text[want:], after) {
			return nil, fmt.Errorf("hunk %d of %q seems to be applied already: read the file again", i+1, rel)
		}
		if at < 0 {
			return nil, mismatch(rel, i+1, text, before, want)
		}
		out = append(append(out, text[done+1:at+1]...), after[1:]...)
		done, shift = at+len(before)-1, bytes.Count(text[:at], []byte{'\n'})-line
	}
	if done < len(text) {
		out = append(out, text[done+1:]...)
	}
	return out[1:], nil
}

// sides returns the old and the new lines of a hunk, after a line end. With crlf, lines get the line ends of the file if the patch has others.
func sides(hunk *gitdiff.TextFragment, crlf bool) (before, after []byte) {
	before, after = []byte{'\n'}, []byte{'\n'}
	crlf = crlf && !slices.ContainsFunc(hunk.Lines, func(l gitdiff.Line) bool { return strings.HasSuffix(l.Line, "\r\n") })
	for _, l := range hunk.Lines {
		text := l.Line
		if body, ended := strings.CutSuffix(text, "\n"); crlf && ended {
			text = body + "\r\n"
		}
		if l.Old() {
			before = append(before, text...)
		}
		if l.New() {
			after = append(after, text...)
		}
	}
	return before, after
}

// lineStart returns the offset of the line end before line n, counted from 0, or the offset of the last line end.
func lineStart(text []byte, n int) int {
	at := 0
	for ; n > 0; n-- {
		next := bytes.IndexByte(text[at+1:], '\n')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return at
}

// nearest returns the offset at which text holds the lines of block, nearest to want and not before from; -1 if there is none.
func nearest(text, block []byte, from, want int) int {
	if block[len(block)-1] != '\n' { // only the last line of a text has no line end
		if at := len(text) - len(block); at >= from && bytes.HasSuffix(text, block) {
			return at
		}
		return -1
	}
	after := bytes.Index(text[want:], block)
	before := bytes.LastIndex(text[from:min(want+len(block)-1, len(text))], block)
	switch {
	case after >= 0 && (before < 0 || bytes.Count(text[want:want+after], []byte{'\n'}) <= bytes.Count(text[from+before:want], []byte{'\n'})):
		return want + after
	case before >= 0:
		return from + before
	}
	return -1
}

// mismatch returns the error for a hunk that is not in the text. It shows the first line that differs at the place where the hunk should be.
func mismatch(rel string, number int, text, before []byte, want int) error {
	line := bytes.Count(text[:want+1], []byte{'\n'})
	expected, found := bytes.SplitAfter(before[1:], []byte{'\n'}), bytes.SplitAfter(text[min(want+1, len(text)):], []byte{'\n'})
	i := 0
	for i < len(expected)-1 && i < len(found)-1 && bytes.Equal(expected[i], found[i]) {
		i++
	}
	return fmt.Errorf("hunk %d of %q matches neither at line %d nor elsewhere after the hunks before it: line %d should be %q and is %q; nothing was changed: read the file again",
		number, rel, line, line+i, cutRunes(expected[i], maxDiffLine), cutRunes(found[i], maxDiffLine))
}
