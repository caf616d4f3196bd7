//go:build unix

package ui

import (
	"os"

	"golang.org/x/sys/unix"
)

// readable reports whether a read from a terminal returns at once.
func readable(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
