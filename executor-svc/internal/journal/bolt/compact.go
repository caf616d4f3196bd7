package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// compactBytes bounds what one transaction of a compaction holds.
const compactBytes = 16 << 20

// Compact writes a journal that no process has open anew without its free pages, checks the copy, and puts it in the
// place of the file; until then the file is as it was, but that its log is applied to it. It returns the sizes before and
// after.
func Compact(path string) (before, after int64, err error) {
	f, err := openApplied(path)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.db.Close()) }()
	problems, err := checkFile(f)
	if err != nil {
		return 0, 0, fmt.Errorf("checking %s: %w", path, err)
	}
	if len(problems) > 0 {
		return 0, 0, damaged("compacting "+path, problems[0])
	}
	if err := removeLeftovers(filepath.Dir(path)); err != nil {
		return 0, 0, err
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), workFolder)
	if err != nil {
		return 0, 0, fmt.Errorf("making room for the copy of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fresh := filepath.Join(folder, "journal.db")
	if err := copyTo(f.db, fresh); err != nil {
		return 0, 0, fmt.Errorf("copying %s; the file is as it was: %w", path, err)
	}
	if before, after, err = sizes(path, fresh); err != nil {
		return 0, 0, err
	}
	// Everything is in the file. Once it has been replaced another process may have it, and a log of its own.
	if err := wal.Remove(path); err != nil {
		return 0, 0, fmt.Errorf("removing the log of %s, which is of no use any more: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return 0, 0, fmt.Errorf("putting the copy in the place of %s; the file is as it was: %w", path, err)
	}
	return before, after, syncFolder(filepath.Dir(path))
}

// openApplied opens a journal to read it, once its log is applied to it.
func openApplied(path string) (*file, error) {
	for {
		f, torn, err := openToRead(path)
		if err == nil && torn != nil {
			// The log goes with the old file, and with it the only trace of what may be missing.
			err = errors.Join(fmt.Errorf("compacting %s: its newest change may be missing (%w); let the executor open it first, which says so and goes on "+
				"without it", path, torn), f.db.Close())
			return nil, err
		}
		if err != nil || f.frozen == nil {
			return f, err
		}
		if err := f.db.Close(); err != nil {
			return nil, err
		}
		s, err := Open(path)
		if err != nil {
			return nil, err
		}
		if err := s.Close(); err != nil {
			return nil, err
		}
	}
}

// removeLeftovers removes what a compaction left that was killed. Nobody else makes a journal while this one is locked.
func removeLeftovers(dir string) error {
	all, err := filepath.Glob(filepath.Join(dir, workFolder))
	for _, folder := range all {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return err
}

func sizes(old, fresh string) (before, after int64, err error) {
	a, err1 := os.Stat(old)
	b, err2 := os.Stat(fresh)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	return a.Size(), b.Size(), nil
}

// copyTo copies all entries into a new file, and checks what it wrote.
func copyTo(src *bbolt.DB, path string) error {
	dst, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, src, compactBytes)
	used := int64(0)
	if err == nil {
		err = dst.View(func(tx *bbolt.Tx) error { used = tx.Size(); return nil })
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return err
	}
	if err := trim(path, used); err != nil {
		return err
	}
	want, err := digest(src)
	if err != nil {
		return err
	}
	return checkCopy(path, want)
}

// trim cuts off what bbolt allocated ahead.
func trim(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

func checkCopy(path string, want [sha256.Size]byte) error {
	f, err := openFile(path, true)
	if err != nil {
		return err
	}
	got, err := digest(f.db)
	if err == nil && got != want {
		err = errors.New("the copy is not what was copied")
	}
	if err == nil {
		var problems []Problem
		if problems, err = checkFile(f); err == nil && len(problems) > 0 {
			err = damaged("the copy", problems[0])
		}
	}
	return errors.Join(err, f.db.Close())
}

// digest is a hash over all entries and the number that comes next.
func digest(db *bbolt.DB) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return fs.ErrNotExist
		}
		writeSized(h, binary.AppendUvarint(nil, b.Sequence()))
		c := b.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			writeSized(h, k)
			writeSized(h, v)
		}
		return nil
	})
	copy(sum[:], h.Sum(nil))
	return sum, err
}

func writeSized(h hash.Hash, b []byte) {
	h.Write(binary.AppendUvarint(nil, uint64(len(b))))
	h.Write(b)
}
