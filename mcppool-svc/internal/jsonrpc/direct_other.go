//go:build !unix

package jsonrpc

import "os"

// directWrite returns nil: nonblocking writes are not supported on this system.
func directWrite(*os.File) func(p []byte) int { return nil }
