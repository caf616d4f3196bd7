//go:build !linux

package mcptest

import (
	"os"
	"syscall"
	"time"
)

// Gone says whether a process has ended, whether or not it is a child, and waits for at most d.
func Gone(pid int, d time.Duration) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return true
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); <-tick.C {
		if p.Signal(syscall.Signal(0)) != nil {
			return true
		}
	}
	return false
}
