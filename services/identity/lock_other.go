//go:build !unix

package identity

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockFor creates the folder if it is missing. Folders cannot be locked here: of two processes that rewrite the
// file in the same instant, the later one wins.
func lockFor(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the key file's folder: %w", err)
	}
	return func() {}, nil
}
