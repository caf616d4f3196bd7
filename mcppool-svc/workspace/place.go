package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

const (
	// ownFolder holds backups and records of changes. Tools do not see it.
	ownFolder = ".pawl"
	// tempName is the file in which new content is written before it replaces a file. Only the holder of the lock writes it.
	tempName = ".pawl-write.tmp"
)

// isOwn reports whether a path is in the folder of the server's own files, also on a file system that ignores letter case.
func isOwn(rel string) bool {
	first, _, _ := strings.Cut(rel, "/")
	return strings.EqualFold(first, ownFolder)
}

// place is a name in an open folder. Tools that change files reach it without following symbolic links, so a file has one path only.
type place struct {
	dir  *os.Root
	name string
	path string // relative to the workspace, with slashes
}

// locateChange turns the path of a request into a clean path of a file or folder that tools may change.
func (s *Server) locateChange(requested string) (string, error) {
	rel, err := s.locate(requested)
	switch {
	case err != nil:
		return "", err
	case rel == ".":
		return "", fmt.Errorf("%q is the workspace itself: name a file or folder in it", requested)
	}
	for part := range strings.SplitSeq(rel, "/") {
		switch {
		case strings.EqualFold(part, ".git"):
			return "", fmt.Errorf("%q belongs to git, which could run programs named there: leave it to git", rel)
		case strings.EqualFold(part, tempName):
			return "", fmt.Errorf("%q is a name that the workspace uses for itself: choose another", rel)
		}
	}
	return rel, nil
}

// open opens the folder that holds rel; the caller closes place.dir. With create it makes missing folders, otherwise the error is
// fs.ErrNotExist if one is missing.
func (s *Server) open(rel string, create bool) (place, error) {
	dir, err := s.root.OpenRoot(".")
	if err != nil {
		return place{}, s.explain(rel, err)
	}
	p := place{dir: dir, name: path.Base(rel), path: rel}
	parent := path.Dir(rel)
	if parent == "." {
		return p, nil
	}
	at := ""
	for part := range strings.SplitSeq(parent, "/") {
		at = path.Join(at, part)
		if create {
			if err = p.dir.Mkdir(part, 0o777); errors.Is(err, fs.ErrExist) {
				err = nil
			}
		}
		var next *os.Root
		if err == nil {
			next, err = enter(p.dir, part, at)
		}
		_ = p.dir.Close()
		if err != nil {
			return place{}, err
		}
		p.dir = next
	}
	return p, nil
}

// enter opens the folder name of dir, whose path is at, if it is no symbolic link.
func enter(dir *os.Root, name, at string) (*os.Root, error) {
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, linkError(at)
	case !info.IsDir():
		return nil, fmt.Errorf("%q is a %s, not a directory", at, kindOf(info.Mode()).name)
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		_ = next.Close()
		return nil, fmt.Errorf("%q was replaced meanwhile: try again", at)
	}
	return next, nil
}

func linkError(rel string) error {
	return fmt.Errorf("%q is a symbolic link: files are not changed through links; name the file or folder that it points to", rel)
}

// file is a file or folder: what a tool found at a path, or what it puts there.
type file struct {
	data []byte
	sum  string      // SHA-256 of data, in hex; empty for a folder
	info fs.FileInfo // gives a file that is put its mode and owner, which are those of a new file if it is nil
	exec *bool       // sets or clears the permission to execute
}

// newFile returns a file to put. If like is not nil, the file has its mode and owner.
func newFile(data []byte, like fs.FileInfo) *file {
	return &file{data: data, sum: sumOf(data), info: like}
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (f *file) isDir() bool { return f.sum == "" }

// anything stands for a file where it does not matter what is at a path.
var anything = &file{}

// read returns what is at rel, nil if there is nothing.
func (s *Server) read(rel string) (*file, error) {
	p, err := s.open(rel, false)
	if err == nil {
		defer func() { _ = p.dir.Close() }()
		var found *file
		if found, err = p.read(); err == nil {
			return found, nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return nil, s.explainChange(rel, err)
}

func (p place) read() (*file, error) {
	info, err := p.dir.Lstat(p.name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return &file{info: info}, nil
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, linkError(p.path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is a %s, not a regular file: it cannot be changed", p.path, kindOf(info.Mode()).name)
	}
	f, info, err := openRegular(p.dir, p.name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxChangedBytes+1))
	if len(data) > maxChangedBytes {
		return nil, fmt.Errorf("%q has more than %d MiB: it is too large to be changed and backed up", p.path, maxChangedBytes>>20)
	}
	return newFile(data, info), err
}

// unchangedSince returns an error if the place does not hold before, as far as the file's attributes show. before is nil if there was nothing.
func (p place) unchangedSince(before *file) error {
	now, err := p.dir.Lstat(p.name)
	switch {
	case before == anything:
		return nil
	case errors.Is(err, fs.ErrNotExist) && before == nil:
		return nil
	case err != nil:
		return err
	case before == nil:
		return fmt.Errorf("%q was created meanwhile: read it first", p.path)
	case !os.SameFile(now, before.info) || now.Size() != before.info.Size() || !now.ModTime().Equal(before.info.ModTime()):
		return fmt.Errorf("%q was changed meanwhile: read it again, and make the change from what it holds", p.path)
	}
	return nil
}

// explainChange turns an error about a change of rel into one for the model.
func (s *Server) explainChange(rel string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("there is no space left to write %q: free some space, or write less", rel)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to change %q: choose another path, or have its permissions changed", rel)
	case errors.Is(err, syscall.ENOTEMPTY):
		return fmt.Errorf("the folder %q is not empty: delete or move what is in it first", rel)
	}
	_, isPath := errors.AsType[*fs.PathError](err)
	_, isLink := errors.AsType[*os.LinkError](err)
	if isPath || isLink {
		return s.explain(rel, err)
	}
	return err
}
