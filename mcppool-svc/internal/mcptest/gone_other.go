//go:build !linux

package mcptest

import (
	"os"
	"syscall"
	"time"
)

// Gone waits for up to d until a process has ended, and reports whether it has. The process need not be a child.
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
