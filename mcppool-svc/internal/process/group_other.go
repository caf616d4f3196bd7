//go:build !unix

package process

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// terminateGroup kills the process alone: this system has neither process groups nor SIGTERM.
func terminateGroup(p *os.Process) { _ = p.Kill() }

// killGroup kills the process alone.
func killGroup(p *os.Process) { _ = p.Kill() }
