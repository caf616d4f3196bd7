//go:build !unix

package process

import (
	"os"
	"syscall"
)

// GroupAttr returns nil: this system has no process groups.
func GroupAttr() *syscall.SysProcAttr { return nil }

// attrOf returns nil; there are no accounts, see FindAccount.
func attrOf(*Account) *syscall.SysProcAttr { return nil }

// TerminateGroup kills the process alone: this system has neither process groups nor SIGTERM.
func TerminateGroup(p *os.Process) { _ = p.Kill() }

// KillGroup kills the process alone.
func KillGroup(p *os.Process) { _ = p.Kill() }
