//go:build !unix

package process

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// This system has no process groups: only the process itself is ended.
func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
