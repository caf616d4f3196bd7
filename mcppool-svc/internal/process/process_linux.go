package process

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// groupAttr gives the child its own group and ends it when the pool is gone, be it by SIGKILL.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when a child that is not reaped yet has ended. Waiting for it as os/exec does would take a thread of its own
// for each child; this takes none. It may return early: what follows waits too.
func awaitExit(pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return // an older kernel
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer func() { _ = f.Close() }()
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// LimitsWork reports whether children can be limited on this system.
const LimitsWork = true

// limit bounds a process that has just been started, and all that it starts from then on. Its address space is left alone:
// V8 and Go reserve much more of it than they use.
func limit(pid int, l Limits) error {
	limits := map[int]uint64{unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_NOFILE: l.Files}
	for resource, most := range limits {
		if most == 0 {
			continue
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("limiting the process: %w", err)
		}
	}
	// A core file would hold the child's secrets.
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	return nil
}
