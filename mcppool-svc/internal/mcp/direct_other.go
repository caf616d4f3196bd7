//go:build !unix

package mcp

import "io"

// directWrite is for pipes that do not wait, which there are none of here.
func directWrite(io.Writer) func(p []byte) int { return nil }
