//go:build unix

package mcp

import (
	"io"
	"syscall"
)

// directWrite returns a write that never waits: it writes what a pipe takes at once, and says how much that was. One at a time may
// use it. Nil where the writer is none of the operating system's.
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
		n, _ = syscall.Write(int(fd), text) // what is wrong shows again in a write that waits
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
