//go:build unix

package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFor keeps other processes from rewriting a file of the same folder meanwhile. It locks the folder, for the file
// itself is replaced, and creates it if it is missing.
func lockFor(path string) (unlock func(), err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the key file's folder: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the key file's folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock the key file's folder: %w", err)
	}
	return func() { _ = f.Close() }, nil // which unlocks it
}
