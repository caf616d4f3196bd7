package wal

import (
	"errors"
	"os"
	"syscall"
)

// datasync leaves out times, which nobody needs.
func datasync(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
