package sandbox

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// architecture is the kernel's number of this one, 0 if refuseUnixSockets does not know it.
var architecture = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// refuseUnixSockets makes socket(AF_UNIX) fail in the calling thread and in the program that it becomes, and all system calls that could make such
// a socket otherwise: io_uring, and those of other architectures. socketpair, whose sockets reach nothing else, works.
func refuseUnixSockets() error {
	const load, equal, atLeast, end = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ, unix.BPF_JMP | unix.BPF_JGE, unix.BPF_RET
	filter := []unix.SockFilter{
		{Code: load, K: 4}, // seccomp_data.arch
		{Code: equal, K: architecture, Jf: 7},
		{Code: load, K: 0},                 // seccomp_data.nr
		{Code: atLeast, K: 1 << 30, Jt: 5}, // x32
		{Code: equal, K: unix.SYS_IO_URING_SETUP, Jt: 4},
		{Code: equal, K: unix.SYS_SOCKET, Jf: 2},
		{Code: load, K: 16}, // seccomp_data.args[0], little-endian
		{Code: equal, K: unix.AF_UNIX, Jt: 1},
		{Code: end, K: unix.SECCOMP_RET_ALLOW},
		{Code: end, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0) //nolint:gosec // as the call wants it
}
