//go:build unix

package process

import (
	"os"
	"syscall"
)

// attrOf returns the attributes of a child of an account; nil: the pool's own.
func attrOf(a *Account) *syscall.SysProcAttr {
	attr := GroupAttr()
	if a != nil {
		attr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid, Groups: a.groups}
	}
	return attr
}

// TerminateGroup asks the processes of a group to end.
func TerminateGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// KillGroup kills the processes of a group.
func KillGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
