//go:build unix && !linux

package process

import "syscall"

// GroupAttr gives the child its own session, without a terminal, and its own group. Only Linux can end the child with the pool; here the child should end when its stdin does.
func GroupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
