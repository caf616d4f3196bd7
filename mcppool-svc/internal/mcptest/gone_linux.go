package mcptest

import (
	"time"

	"golang.org/x/sys/unix"
)

// Gone says whether a process has ended, whether or not it is a child, and waits for at most d.
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
