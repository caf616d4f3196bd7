//go:build !unix

package sandbox

import (
	"os"
	"syscall"
)

func sessionAttr() *syscall.SysProcAttr { return nil }

// terminate kills the process alone: this system has neither sessions nor SIGTERM.
func terminate(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }

func signalOf(*os.ProcessState) string { return "" }
