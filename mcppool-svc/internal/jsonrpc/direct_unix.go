//go:build unix

package jsonrpc

import (
	"os"
	"syscall"
)

// directWrite returns a function that writes as much as a pipe takes without waiting, and returns how much. It is not safe
// for concurrent use. It is nil if the pipe is closed.
func directWrite(out *os.File) func(p []byte) int {
	raw, err := out.SyscallConn()
	if err != nil {
		return nil
	}
	var text []byte
	var n int
	attempt := func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), text) // an error shows again in the write that waits
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
