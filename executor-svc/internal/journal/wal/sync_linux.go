package wal

import (
	"errors"
	"os"
	"syscall"
)

// datasync is fsync without the file's times.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
