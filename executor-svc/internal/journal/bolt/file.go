package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/wal"
)

// lockWait is how long opening waits for another process to release the file.
const lockWait = 200 * time.Millisecond

// fillPercent is how full bbolt leaves a page that it splits. Records of new tasks are inserted after all others, so that full pages are seldom
// split again.
const fillPercent = 1.0

// minFileSize is the size of an empty journal with the smallest pages.
const minFileSize = 4 * 4096

// openFile opens a file, and checks that it is complete, because reading a page beyond its end would fault. Unless readOnly is set,
// it creates the file if there is none.
func openFile(path string, readOnly bool) (*file, error) {
	if !readOnly {
		if err := createFile(path); err != nil {
			return nil, openError(path, err)
		}
	}
	db, err := openCurrent(path, readOnly)
	if err != nil {
		return nil, openError(path, err)
	}
	return newFile(path, db), nil
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return fmt.Errorf("opening %s: %w; move the file away, or restore it from a backup", path, err)
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("opening %s: %w", path, journal.ErrLocked)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("opening %s: this is not a Pawl journal, or %w (%w); move the file away, or restore it from a backup", path, journal.ErrDamaged, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("opening %s: %w; the folder must be writable", path, err)
	}
	return fmt.Errorf("opening the journal %s: %w", path, err)
}

// workFolder is the pattern for the name of the folder in which a journal is built before it is moved to its path.
const workFolder = ".journal-*"

// createFile creates a journal without tasks if there is no file. The file appears complete or not at all, because an incomplete
// one counts as damaged.
func createFile(path string) error {
	logSize := wal.Size(path) // read before the Stat, because another process creates the file first, then its log
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if logSize > 0 {
		return fmt.Errorf("there is a log (%s) but no journal; bring the journal back, or move the log away too", wal.Paths(path)[0])
	}
	folder, err := os.MkdirTemp(filepath.Dir(path), workFolder)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	fresh := filepath.Join(folder, "journal.db")
	db, err := bbolt.Open(fresh, 0o600, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(initialize), db.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces a file that another process created meanwhile; not every file system has links.
	if err := os.Link(fresh, path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(fresh, path); err != nil {
			return err
		}
	}
	return wal.SyncFolder(filepath.Dir(path))
}

// openCurrent opens an existing file. If the file was replaced while this process waited for the lock, openCurrent opens the new one.
func openCurrent(path string, readOnly bool) (*bbolt.DB, error) {
	for {
		handle, db, err := openOnce(path, readOnly)
		if err != nil {
			return nil, err
		}
		opened, err1 := handle.Stat()
		current, err2 := os.Stat(path)
		if err := errors.Join(err1, err2); err != nil {
			return nil, errors.Join(err, db.Close())
		}
		if !os.SameFile(opened, current) {
			if err := db.Close(); err != nil {
				return nil, err
			}
			continue
		}
		return db, nil
	}
}

func openOnce(path string, readOnly bool) (handle *os.File, db *bbolt.DB, err error) {
	// Faults of this goroutine become panics, which faultsAsErrors turns into errors.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if info, err := os.Stat(path); err != nil {
		return nil, nil, err
	} else if info.Size() < minFileSize {
		return nil, nil, fmt.Errorf("%w: the file is truncated", journal.ErrDamaged)
	}
	err = faultsAsErrors("the file", func() (err error) {
		db, err = bbolt.Open(path, 0o600, &bbolt.Options{
			Timeout: lockWait, FreelistType: bbolt.FreelistMapType, ReadOnly: readOnly, PreLoadFreelist: readOnly,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				handle, err = os.OpenFile(name, flag&^os.O_CREATE, mode)
				return handle, err
			},
		})
		if err != nil {
			return err
		}
		info, err := handle.Stat()
		if err != nil {
			return err
		}
		return db.View(func(tx *bbolt.Tx) error {
			if tx.Size() > info.Size() {
				return fmt.Errorf("%w: it is shorter than its meta page says", journal.ErrDamaged)
			}
			return nil
		})
	})
	switch {
	case err == nil:
		return handle, db, nil
	case db != nil && !errors.Is(err, journal.ErrDamaged):
		return nil, nil, errors.Join(err, db.Close())
	case handle != nil:
		// bbolt does not close a file that it could not read: closing the handle releases the lock.
		_ = handle.Close()
	}
	return nil, nil, err
}
