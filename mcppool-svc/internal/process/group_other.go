//go:build !unix

package process

import (
	"os"
	"syscall"
)

func groupAttr() *syscall.SysProcAttr { return nil }

// There are no groups to signal here: the process alone is ended.
func terminateGroup(p *os.Process) { _ = p.Kill() }

func killGroup(p *os.Process) { _ = p.Kill() }
