package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// maxWalkDepth bounds the folder handles that one walk holds open.
const maxWalkDepth = 128

// entry is something a walk came past.
type entry struct {
	path string      // relative to the workspace root, with slashes
	dir  *os.Root    // the open folder that holds it, valid during the visit
	name string      // its name in dir
	info fs.FileInfo // of the entry itself: links are not followed
}

// walk goes through a folder depth first, names sorted, without following
// symbolic links. Each folder is opened by its name in the open folder above,
// so a path is never resolved twice.
type walk struct {
	limit  int  // of entries
	flat   bool // do not enter the folders below
	report reporter

	entries    int
	files      int
	unreadable int  // folders that could not be opened or read, or lie too deep
	exhausted  bool // the limit ended the walk
}

// walk visits what is below the folder rel, which a request names.
func (s *Server) walk(ctx context.Context, w *walk, rel string, visit func(entry) error) error {
	dir, err := s.openDir(rel)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := w.run(ctx, dir, rel, visit); err != nil {
		return s.explain(rel, err)
	}
	return nil
}

// run visits what is below dir, whose path is base. A visit ends the walk with
// fs.SkipAll, which is no error.
func (w *walk) run(ctx context.Context, dir *os.Root, base string, visit func(entry) error) error {
	list, err := w.readDir(ctx, dir)
	if err == nil {
		err = w.folder(ctx, dir, base, list, 0, visit)
	}
	switch {
	case errors.Is(err, fs.SkipAll):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %d files: %w: search a smaller folder, or allow more time", w.files, context.Cause(ctx))
	}
	return err
}

func (w *walk) folder(ctx context.Context, dir *os.Root, base string, list []fs.DirEntry, depth int, visit func(entry) error) error {
	for _, item := range list {
		if err := w.count(ctx); err != nil {
			return err
		}
		info, err := item.Info()
		if err != nil {
			continue // it went away since the folder was read
		}
		e := entry{path: path.Join(base, item.Name()), dir: dir, name: item.Name(), info: info}
		if err := visit(e); err != nil {
			return err
		}
		w.progress(info)
		if !w.enters(info) {
			continue
		}
		if err := w.below(ctx, e, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// below walks the folder e. One that cannot be read is counted, and the walk goes on.
func (w *walk) below(ctx context.Context, e entry, depth int, visit func(entry) error) error {
	if depth > maxWalkDepth {
		w.unreadable++
		return nil
	}
	sub, err := e.dir.OpenRoot(e.name)
	if err != nil {
		w.unreadable++
		return nil
	}
	defer func() { _ = sub.Close() }()
	list, err := w.readDir(ctx, sub)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		w.unreadable++
		return nil // it is counted
	}
	return w.folder(ctx, sub, e.path, list, depth, visit)
}

// enters tells whether the walk goes into an entry: not into .git and
// node_modules, which hold what machines wrote.
func (w *walk) enters(info fs.FileInfo) bool {
	return info.IsDir() && !w.flat && info.Name() != ".git" && info.Name() != "node_modules"
}

func (w *walk) count(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.entries >= w.limit {
		w.exhausted = true
		return fs.SkipAll
	}
	w.entries++
	return nil
}

func (w *walk) progress(info fs.FileInfo) {
	if !info.Mode().IsRegular() {
		return
	}
	w.files++
	if w.files%progressEvery == 0 {
		w.report(w.files)
	}
}

// readDir reads a folder in parts, no more than the walk may still visit and
// one, so that a huge folder neither fills the memory nor outlasts ctx.
func (w *walk) readDir(ctx context.Context, dir *os.Root) ([]fs.DirEntry, error) {
	const part = 1024
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var all []fs.DirEntry
	for len(all) <= w.limit-w.entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		list, err := f.ReadDir(part)
		all = append(all, list...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return all, nil
}
