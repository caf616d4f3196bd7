//go:build unix && !linux

package process

import "syscall"

// groupAttr gives the child its own group. Only Linux can also tie its life to ours; here it ends when its stdin does.
func groupAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
