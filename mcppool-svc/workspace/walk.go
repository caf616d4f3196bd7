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

// maxWalkDepth bounds how deep a walk goes, and so the handles that it holds open.
const maxWalkDepth = 128

// entry is a file or folder that a walk visits.
type entry struct {
	path string      // relative to the workspace root, with slashes
	dir  *os.Root    // the folder that contains the entry; open during the visit
	name string      // its name in dir
	info fs.FileInfo // of the entry itself: links are not followed
}

// walk visits a folder depth first, in the order of names, without following
// symbolic links. It opens each folder by its name in the open parent folder,
// so a path is never resolved twice.
type walk struct {
	limit  int  // how many entries are visited at most
	flat   bool // do not enter folders
	report reporter

	entries    int  // visited so far
	files      int  // regular files among them
	unreadable int  // folders that could not be opened or read, or are too deep
	exhausted  bool // the limit ended the walk
}

// walk visits the entries below the folder at a path of a request.
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

// run visits the entries below dir, whose path is base. A visit ends the walk
// without error by returning fs.SkipAll.
func (w *walk) run(ctx context.Context, dir *os.Root, base string, visit func(entry) error) error {
	list, err := w.readDir(ctx, dir)
	if err == nil {
		err = w.visitAll(ctx, dir, base, list, 0, visit)
	}
	switch {
	case errors.Is(err, fs.SkipAll):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("stopped after %d files: %w: search a smaller folder, or allow more time", w.files, context.Cause(ctx))
	}
	return err
}

// visitAll visits list, the entries of dir, and all entries below them, except those in .git and node_modules, which contain generated and
// downloaded files. It counts folders that cannot be read.
func (w *walk) visitAll(ctx context.Context, dir *os.Root, base string, list []fs.DirEntry, depth int, visit func(entry) error) error {
	for _, item := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.exhausted = w.entries >= w.limit; w.exhausted {
			return fs.SkipAll
		}
		w.entries++
		info, err := item.Info()
		if err != nil {
			continue // it was removed after the folder was read
		}
		e := entry{path: path.Join(base, item.Name()), dir: dir, name: item.Name(), info: info}
		if isOwn(e.path) || e.name == tempName {
			continue
		}
		if err := visit(e); err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			if w.files++; w.files%progressEvery == 0 {
				w.report(w.files, plural(w.files, "file", "files"))
			}
		}
		if !info.IsDir() || w.flat || e.name == ".git" || e.name == "node_modules" {
			continue
		}
		if err := w.visitBelow(ctx, e, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}

// visitBelow visits the entries below the folder e.
func (w *walk) visitBelow(ctx context.Context, e entry, depth int, visit func(entry) error) error {
	var list []fs.DirEntry
	err := errors.New("too deep")
	if depth <= maxWalkDepth {
		var sub *os.Root
		if sub, err = e.dir.OpenRoot(e.name); err == nil {
			defer func() { _ = sub.Close() }()
			e.dir = sub
			list, err = w.readDir(ctx, sub)
		}
	}
	if err != nil && ctx.Err() == nil {
		w.unreadable++
		return nil
	}
	return w.visitAll(ctx, e.dir, e.path, list, depth, visit)
}

// readDir returns the entries of a folder, sorted. It reads the folder in parts,
// and stops if ctx ends or once it has more entries than the walk may still visit.
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
