package wal

import (
	"errors"
	"os"
	"syscall"
)

// datasync is fsync without making the file's times durable.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
