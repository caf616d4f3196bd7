//go:build unix

package mcpgo

import (
	"io"
	"syscall"
)

// directWrite returns a write that never waits: it writes what a pipe takes at once, and says how much that was. Nil where
// the writer is none of the operating system's.
func directWrite(out io.Writer) func(p []byte) int {
	f, ok := out.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	return func(p []byte) int {
		n := 0
		err := raw.Write(func(fd uintptr) bool {
			n, _ = syscall.Write(int(fd), p) // what is wrong shows again in a write that waits
			return true
		})
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
}
