//go:build unix

package identity

import (
	"os"
	"syscall"
)

// lockDir keeps other processes from rewriting the key file. It locks the folder, because the file itself is replaced.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}
