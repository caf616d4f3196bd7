package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"pawl.dev/services/similar"
)

// locate turns the path of a request into a clean path with slashes, relative
// to the root. It explains bad paths; os.Root is what confines every access.
func (s *Server) locate(requested string) (string, error) {
	if strings.ContainsRune(requested, 0) {
		return "", fmt.Errorf("%q is not a path: it holds a NUL character", requested)
	}
	p := requested
	if filepath.IsAbs(p) {
		p = s.toRelative(p)
	}
	p = path.Clean(filepath.ToSlash(p))
	if path.IsAbs(p) || p == ".." || strings.HasPrefix(p, "../") {
		return "", fmt.Errorf("%q is outside the workspace: give a path relative to its root, which is \".\"", requested)
	}
	if isOwn(p) {
		return "", fmt.Errorf("%q holds backups of the workspace: use list_backups and restore_file for them", requested)
	}
	return p, nil
}

// toRelative makes an absolute path relative to the root if it is inside the
// root; otherwise it returns the path unchanged.
func (s *Server) toRelative(abs string) string {
	for _, root := range s.aliases {
		if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return abs
}

// openRegular opens a regular file below dir. With O_NONBLOCK the open does not
// block if a named pipe has replaced the file.
func openRegular(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := dir.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is a %s, not a regular file", kindOf(info.Mode()).name)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// stat describes a file. It follows symbolic links that stay inside the root.
func (s *Server) stat(rel string) (fs.FileInfo, error) {
	return s.root.Stat(filepath.FromSlash(rel))
}

// openFile opens the regular file at a path of a request.
func (s *Server) openFile(rel string) (*os.File, fs.FileInfo, error) {
	info, err := s.stat(rel)
	if err != nil {
		return nil, nil, s.explain(rel, err)
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("%q is a directory: use list_directory to see what is in it", rel)
	}
	// Check before opening too, because opening a device can have an effect.
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%q is a %s, not a regular file: it cannot be read", rel, kindOf(info.Mode()).name)
	}
	f, info, err := openRegular(s.root, rel)
	if err != nil {
		return nil, nil, s.explain(rel, err)
	}
	return f, info, nil
}

// openDir opens the folder at a path of a request.
func (s *Server) openDir(rel string) (*os.Root, error) {
	info, err := s.stat(rel)
	if err != nil {
		return nil, s.explain(rel, err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a directory: use read_file or get_file_info for it, or name the folder %q", rel, path.Dir(rel))
	}
	dir, err := s.root.OpenRoot(filepath.FromSlash(rel))
	if err != nil {
		return nil, s.explain(rel, err)
	}
	return dir, nil
}

// kind describes a type of file in results and messages.
type kind struct {
	mode fs.FileMode
	typ  string // the `type` in results
	name string // for messages
	mime string // the type in the freedesktop shared MIME database
}

// kinds holds the kinds other than regular files.
var kinds = []kind{
	{fs.ModeDir, "directory", "directory", "inode/directory"},
	{fs.ModeSymlink, "symlink", "symbolic link", "application/octet-stream"},
	{fs.ModeNamedPipe, "other", "named pipe", "inode/fifo"},
	{fs.ModeSocket, "other", "socket", "inode/socket"},
	{fs.ModeCharDevice, "other", "device", "inode/chardevice"},
	{fs.ModeDevice, "other", "device", "inode/blockdevice"},
}

func kindOf(mode fs.FileMode) kind {
	for _, k := range kinds {
		if mode&k.mode != 0 {
			return k
		}
	}
	if mode.IsRegular() {
		return kind{typ: "file", name: "regular file", mime: "application/octet-stream"}
	}
	return kind{typ: "other", name: "special file", mime: "application/octet-stream"}
}

// explain turns an error about the path rel into one for the model: what went
// wrong and what to do, without the workspace's path on this machine.
func (s *Server) explain(rel string, err error) error {
	switch {
	case errors.Is(err, fs.ErrClosed):
		return errors.New("the workspace is closed: start its server again")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("reading %q: %w", rel, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return s.missing(rel)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to read %q: choose another path, or have its permissions changed", rel)
	case errors.Is(err, syscall.ELOOP):
		return fmt.Errorf("the symbolic links of %q lead in a circle: name the file itself", rel)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errors.New("the path, or one of its names, is longer than the file system allows")
	case leavesRoot(err):
		return fmt.Errorf("%q is or goes through a symbolic link that leads out of the workspace (or is absolute): it is not followed", rel)
	}
	return fmt.Errorf("cannot read %q: %w", rel, withoutPath(err))
}

// leavesRoot reports whether err is os.Root's refusal. It compares the text,
// because os does not export the error. A test checks the text.
func leavesRoot(err error) bool {
	return strings.Contains(err.Error(), "escapes from parent")
}

// withoutPath returns the cause of a PathError, whose text has no absolute path.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// missing returns the error for a path that does not exist. It names the first
// part of the path that does not exist, and similar names in the same folder.
func (s *Server) missing(rel string) error {
	if link, err := s.root.Lstat(filepath.FromSlash(rel)); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%q is a symbolic link to something that does not exist", rel)
	}
	dir, name := s.firstMissing(rel)
	at := path.Join(dir, name)
	if info, err := s.stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("%q does not exist: %q is a file, not a directory", rel, dir)
	}
	msg := fmt.Sprintf("%q does not exist", rel)
	if at != rel {
		msg += fmt.Sprintf(" (there is no %q)", at)
	}
	if like := suggestions(name, s.names(dir)); len(like) > 0 {
		for i, n := range like {
			like[i] = fmt.Sprintf("%q", path.Join(dir, n))
		}
		return fmt.Errorf("%s; there is %s: use that, or list_directory on %q to see what is there", msg, strings.Join(like, ", "), dir)
	}
	return fmt.Errorf("%s: use list_directory on %q to see what is there, or search_files to find it elsewhere", msg, dir)
}

// firstMissing returns the first part of rel that does not exist, and the folder in which it was expected.
func (s *Server) firstMissing(rel string) (dir, name string) {
	dir, name = path.Dir(rel), path.Base(rel)
	for dir != "." {
		if _, err := s.stat(dir); err == nil {
			break
		}
		dir, name = path.Dir(dir), path.Base(dir)
	}
	return dir, name
}

// names returns up to 5000 names in a folder, for suggestions.
func (s *Server) names(dir string) []string {
	f, err := s.root.Open(filepath.FromSlash(dir))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(5000)
	return names
}

const (
	maxSuggestions = 3
	maxNameLength  = 255 // no common file system allows longer names
)

// suggestions returns the names that are most similar to a wrong one, best first: names with almost the same spelling, and names that contain
// the wrong name without its extension.
func suggestions(wrong string, names []string) []string {
	length := utf8.RuneCountInString(wrong)
	if length > maxNameLength {
		return nil
	}
	wrong = strings.ToLower(wrong)
	stem := strings.TrimSuffix(wrong, path.Ext(wrong))
	distances := make(map[string]int)
	for _, name := range names {
		lower := strings.ToLower(name)
		if d := similar.Distance(wrong, lower); d <= (length+2)/3 || len(stem) >= 3 && strings.Contains(lower, stem) {
			distances[name] = d
		}
	}
	best := slices.SortedFunc(maps.Keys(distances), func(a, b string) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return best[:min(len(best), maxSuggestions)]
}
