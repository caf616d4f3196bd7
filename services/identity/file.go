package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"time"
)

// recheckAfter is how long a file is taken as unchanged.
const recheckAfter = time.Second

// watchedFile is a file of keys or issuers that is read again when it changes. Its owner guards it.
type watchedFile struct {
	path     string
	kind     string      // of its entries, for messages: "key" or "issuer"
	lastRead fs.FileInfo // of the last version that was read, valid or not; nil: there was no file
	checked  time.Time   // when it was last checked for changes
}

// refresh calls load for a changed file, and clear for a deleted one. If load fails, the previous entries stay in force.
func (f *watchedFile) refresh(load func() error, clear func()) {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.lastRead != nil {
			slog.Error("the "+f.kind+" file is gone: all its "+f.kind+"s are refused until it is back", "path", f.path)
			f.lastRead = nil
			clear()
		}
	case err != nil:
		slog.Warn("the "+f.kind+" file cannot be read; the previous "+f.kind+"s stay in force", "error", err)
	case !sameVersion(f.lastRead, info):
		if err := load(); err != nil {
			f.lastRead = info
			slog.Warn("the new version of the "+f.kind+" file cannot be used; the previous "+f.kind+"s stay in force", "error", err)
		}
	}
}

// sameVersion also compares the files' identity: an atomic replacement may have the same size and modification time.
func sameVersion(a, b fs.FileInfo) bool {
	return a != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// read returns the content of the file. It does not change f. The error wraps fs.ErrNotExist if there is no file.
func (f *watchedFile) read() ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the %s file: %w", f.kind, err)
	}
	if info.IsDir() {
		return nil, nil, fmt.Errorf("%s file %s: it is a folder", f.kind, f.path)
	}
	// Others could add an operator.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, nil, fmt.Errorf("%s file %s: others may write it (mode %04o); run: chmod 600 %[2]s", f.kind, f.path, info.Mode().Perm())
	}
	raw, err := os.ReadFile(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("read the %s file: %w", f.kind, err)
	}
	return raw, info, nil
}
