//go:build unix

package process

import (
	"os"
	"syscall"
)

// TerminateGroup asks the processes of a group to end.
func TerminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// KillGroup kills the processes of a group.
func KillGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
