//go:build unix

package task

import "golang.org/x/sys/unix"

// checkWritable returns why this user cannot write to a folder; nil if the user can.
func checkWritable(dir string) error { return unix.Access(dir, unix.W_OK) }
