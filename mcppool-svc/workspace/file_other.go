//go:build !unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
)

// lockFile fails: without a lock, changes could overwrite each other.
func lockFile(*os.File) error { return errors.ErrUnsupported }

func tryLock(*os.File) bool { return false }

func keepOwner(*os.File, fs.FileInfo) {}
