package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/journal"
	"pawl.dev/executor-svc/internal/journal/bolt"
)

// ErrDamaged is the error for a journal that cannot be read.
var ErrDamaged = journal.ErrDamaged

// Problem is a defect in a journal.
type Problem = bolt.Problem

// journalFile is the journal's name within a data folder.
const journalFile = "journal.db"

// webhookKeyFile is the name of the file of the key that encrypts the secrets of webhooks.
const webhookKeyFile = "webhooks.key"

// StoreInfo describes the journal of a data folder that no process uses. ErrLocked if a process uses the folder.
func StoreInfo(dir string) (*executorv1.StoreInfo, error) {
	path := filepath.Join(dir, journalFile)
	i, err := bolt.FileInfo(path)
	return i, withAdvice(path, err)
}

// CompactStore replaces the journal of a data folder that no process uses with a checked copy without deleted data, and returns the sizes in
// bytes. ErrLocked if a process uses the folder, ErrDamaged if the journal has problems.
func CompactStore(dir string) (before, after int64, err error) {
	path := filepath.Join(dir, journalFile)
	before, after, err = bolt.Compact(path)
	return before, after, withAdvice(path, err)
}

// CheckStore reads the whole journal of a data folder that no process uses, and returns its problems. ErrLocked if a process uses
// the folder, ErrDamaged if the journal cannot be opened.
func CheckStore(dir string) ([]Problem, error) {
	path := filepath.Join(dir, journalFile)
	problems, err := bolt.CheckFile(path)
	return problems, withAdvice(path, err)
}

// withAdvice adds what to do to the errors of a missing or locked journal.
func withAdvice(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no journal at %s; name the data folder of the server with --data: %w", path, err)
	case errors.Is(err, ErrLocked):
		return fmt.Errorf("%w; stop the server that uses it first", err)
	}
	return err
}
