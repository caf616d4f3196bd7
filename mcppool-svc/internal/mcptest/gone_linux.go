package mcptest

import (
	"time"

	"golang.org/x/sys/unix"
)

// Gone waits for up to d until a process has ended, and reports whether it has. The process need not be a child.
func Gone(pid int, d time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	deadline := time.Now().Add(d)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds()))
		if err == unix.EINTR && time.Now().Before(deadline) {
			continue
		}
		return err == nil && n > 0
	}
}
