//go:build unix

package jsonrpc

import (
	"os"
	"syscall"
)

// directWrite returns a function that writes as much as the pipe takes without waiting, and returns the number of bytes. The function is not
// safe for concurrent use. directWrite returns nil if the pipe is closed.
func directWrite(out *os.File) func(p []byte) int {
	raw, err := out.SyscallConn()
	if err != nil {
		return nil
	}
	var text []byte
	var n int
	attempt := func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), text) // the later blocking write returns the error too
		return true
	}
	return func(p []byte) int {
		text, n = p, 0
		err := raw.Write(attempt)
		text = nil
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
}
