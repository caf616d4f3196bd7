// Package privatefile replaces files that only their owner may read, such as keys and logins, warns of files that others may use, and locks the
// folders of files that several processes change.
package privatefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Write replaces a file with the output of write in one step: a concurrent reader sees the old version or the new one. Only its owner can read the file.
func Write(path string, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		if inPath, ok := errors.AsType[*fs.PathError](err); ok { // it names the temporary file
			err = inPath.Err
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = write(tmp); err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// WarnOfDataFolder logs a warning if other users may write a data folder.
func WarnOfDataFolder(log *slog.Logger, dir string) {
	WarnIfOthers(log, dir, 0o002, "other users of this machine may replace the files of the data folder")
}

// WarnIfOthers logs a risk if users other than the owner and its group have a permission of mask on a file or folder. It ignores one that does not exist.
func WarnIfOthers(log *slog.Logger, path string, mask fs.FileMode, risk string) {
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode()&mask&0o007 != 0 {
		log.Warn(risk+"; run: chmod o-rwx "+path, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
}

// retryLock is how often a lock that is held is tried again.
const retryLock = 10 * time.Millisecond

// LockDir makes a folder if it does not exist, and waits until no other caller of LockDir, in any process, holds it. A folder is locked because
// Write replaces the files in it.
func LockDir(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for {
		held, err := tryLock(f)
		if err == nil && held {
			return func() { _ = f.Close() }, nil // closing releases the lock
		}
		if err == nil {
			select {
			case <-time.After(retryLock):
				continue
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
}
