//go:build unix

package jsonrpc

import (
	"io"
	"syscall"
)

// directWrite returns a function that writes what a pipe takes without waiting and returns how much that was. It is not safe
// for concurrent use. It is nil if the writer is not a file.
func directWrite(out io.Writer) func(p []byte) int {
	f, ok := out.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
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
