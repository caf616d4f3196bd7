//go:build !unix

package ui

import "os"

// readable reports whether a read from a terminal is known to return at once.
func readable(*os.File) bool { return false }
