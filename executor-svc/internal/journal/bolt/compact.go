package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"pawl.dev/executor-svc/internal/journal/wal"
)

// compactBytes bounds what one transaction of a compaction holds.
const compactBytes = 16 << 20

// Compact copies a journal without its free pages, checks the copy, and replaces the file with it. No process may have the journal
// open. Until it is replaced the file stays as it was, except that its log is applied. Compact returns the sizes in bytes, with the log, before
// and after.
func Compact(path string) (before, after int64, err error) {
	return compact(path, func(change func() error) error { return change() })
}

// compact is Compact; it makes each change of the disk by a call of do. Tests replace do to simulate failures and kills.
func compact(path string, do func(change func() error) error) (before, after int64, err error) {
	logSize := wal.Size(path)
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
		return 0, 0, damagedError("compacting "+path, problems[0])
	}
	dir, folder := filepath.Dir(path), ""
	if err := do(func() error { return removeLeftovers(dir) }); err != nil {
		return 0, 0, err
	}
	if err := do(func() (err error) { folder, err = os.MkdirTemp(dir, workFolder); return err }); err != nil {
		return 0, 0, fmt.Errorf("creating a folder for the copy of %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fresh := filepath.Join(folder, "journal.db")
	if err := copyTo(f.db, fresh, do); err != nil {
		return 0, 0, fmt.Errorf("copying %s; the file is as it was: %w", path, err)
	}
	old, err1 := os.Stat(path)
	copied, err2 := os.Stat(fresh)
	if err := errors.Join(err1, err2); err != nil {
		return 0, 0, err
	}
	// The log is applied, so it can go. It goes first: after the rename another process may open the copy and begin a new log.
	if err := do(func() error { return wal.Remove(path) }); err != nil {
		return 0, 0, fmt.Errorf("removing the log of %s, which is applied: %w", path, err)
	}
	if err := do(func() error { return os.Rename(fresh, path) }); err != nil {
		return 0, 0, fmt.Errorf("putting the copy in the place of %s; the file is as it was: %w", path, err)
	}
	if err := do(func() error { return wal.SyncFolder(dir) }); err != nil {
		err = fmt.Errorf("%s is compacted, but after a power failure the file may be as it was: %w", path, err)
		return 0, 0, err
	}
	return old.Size() + logSize, copied.Size(), nil
}

// openApplied opens a journal for reading, and applies its log if it has changes that are not in the file.
func openApplied(path string) (*file, error) {
	for {
		f, torn, err := openToRead(path)
		if err == nil && torn != nil {
			// Compacting would remove the log, the only trace of the change that may be missing.
			err = errors.Join(fmt.Errorf("compacting %s: its newest change may be missing (%w); start the executor once: it reports this and continues "+
				"without that change", path, torn), f.db.Close())
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

// removeLeftovers removes folders that killed processes left. While the journal is locked, no other process builds one here.
func removeLeftovers(dir string) error {
	all, err := os.ReadDir(dir)
	for _, entry := range all {
		if is, _ := filepath.Match(workFolder, entry.Name()); is {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// copyTo copies all entries into a new file, and checks the copy.
func copyTo(src *bbolt.DB, path string, do func(change func() error) error) error {
	used := int64(0)
	if err := do(func() (err error) { used, err = copyEntries(src, path); return err }); err != nil {
		return err
	}
	if err := do(func() error { return trim(path, used) }); err != nil {
		return err
	}
	f, err := openFile(path, true)
	if err != nil {
		return err
	}
	problems, err := checkFile(f)
	if err == nil && len(problems) > 0 {
		err = damagedError("the copy", problems[0])
	}
	return errors.Join(err, f.db.Close())
}

// copyEntries copies all entries into a new file, and returns how many bytes of it are used.
func copyEntries(src *bbolt.DB, path string) (used int64, err error) {
	dst, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	err = bbolt.Compact(dst, src, compactBytes)
	if err == nil {
		// One more transaction, so that both meta pages describe the whole copy.
		err = dst.Update(func(tx *bbolt.Tx) error { used = tx.Size(); return nil })
	}
	return used, errors.Join(err, dst.Close())
}

// trim cuts off the space that bbolt allocated ahead.
func trim(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}
