package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// GroupAttr gives the child its own group, and its own session if the pool's has a terminal, so that the child has none. It makes Linux kill the
// child when the pool ends, even by SIGKILL. Linux schedules each session as a group (autogroup), so a session for each child would cost up to a
// fifth of the throughput.
func GroupAttr() *syscall.SysProcAttr {
	tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(tty)
	}
	session := !errors.Is(err, unix.ENXIO) // the answer if there is no terminal
	return &syscall.SysProcAttr{Setsid: session, Setpgid: !session, Pdeathsig: syscall.SIGKILL}
}

// closeOnExec keeps the descriptors that this process has inherited from its children; its own are kept from them by Go.
func closeOnExec() {
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // fails on kernels before 5.11
}

// awaitExit waits until a child ends, without reaping it. Unlike os/exec's Wait it does not block a thread for each child. It may return early,
// so the caller must call Wait in any case.
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

// limit bounds a process that has just been started, and the processes that it starts later. It does not bound the address space, because V8
// and Go reserve much more of that than they use.
func limit(pid int, l Limits) error {
	limits := map[int]uint64{unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_NOFILE: l.Files}
	for resource, bound := range limits {
		if bound == 0 {
			continue
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: bound, Max: bound}, nil); err != nil {
			return fmt.Errorf("limiting the process: %w", err)
		}
	}
	// A core file would hold the child's secrets.
	if err := unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		return fmt.Errorf("limiting the process: %w", err)
	}
	return nil
}
