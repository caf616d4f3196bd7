// Package stack lets a goroutine grow its stack once instead of in steps.
package stack

// size is enough for a handler, its interceptors and the calls that it makes in this process.
const size = 12 << 10

// Reserve grows the stack of the calling goroutine to the size that a deep call needs. Call it first in a goroutine, while the stack is almost empty:
// otherwise the runtime doubles the stack, and copies all frames on it, three or four times on the way down.
func Reserve() { touch(0) }

//go:noinline
func touch(i int) byte {
	var frame [size]byte
	return frame[i%size]
}
