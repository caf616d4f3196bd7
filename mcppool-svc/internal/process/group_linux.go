package process

import "syscall"

// groupAttr gives the child its own group and ends it when the pool is gone, be it by SIGKILL.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
