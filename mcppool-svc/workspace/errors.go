package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"pawl.dev/services/similar"
)

// explain says what went wrong with the path rel and what to do next, without
// showing where the workspace lies on this machine.
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
	return fmt.Errorf("cannot read %q: %w", rel, bare(err))
}

// leavesRoot recognises os.Root's refusal by its text: the error value is not
// exported. A test pins the text.
func leavesRoot(err error) bool {
	return strings.Contains(err.Error(), "escapes from parent")
}

// bare drops the absolute path that a PathError shows.
func bare(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// missing explains a path that does not exist: it finds how far the path is
// right, and offers names there that are like the wrong one.
func (s *Server) missing(rel string) error {
	if link, err := s.root.Lstat(filepath.FromSlash(rel)); err == nil && link.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%q is a symbolic link to something that does not exist", rel)
	}
	dir, name := s.firstWrong(rel)
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

// firstWrong splits rel at its first part that does not exist.
func (s *Server) firstWrong(rel string) (dir, name string) {
	dir, name = path.Dir(rel), path.Base(rel)
	for dir != "." {
		if _, err := s.stat(dir); err == nil {
			break
		}
		dir, name = path.Dir(dir), path.Base(dir)
	}
	return dir, name
}

// names reads the names in a folder, for suggestions: a few thousand will do.
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
	maxNameLength  = 255 // longer ones exist on no common file system
)

// suggestions returns the names most like the wrong one, best first: those spelt almost like it, and those that hold it without its extension.
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
