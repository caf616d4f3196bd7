package privatefile_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl.dev/services/privatefile"
)

// Concurrent changes under the lock lose nothing, and readers see whole versions only.
func TestConcurrentChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "count")
	const changes = 40
	change := func() error {
		unlock, err := privatefile.LockDir(t.Context(), filepath.Dir(path))
		if err != nil {
			return err
		}
		defer unlock()
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return privatefile.Write(path, func(w io.Writer) error {
			_, err := io.WriteString(w, string(old)+"x")
			return err
		})
	}
	var group sync.WaitGroup
	for range changes {
		group.Go(func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	info, err := os.Stat(path)
	if err != nil || info.Size() != changes || info.Mode().Perm() != 0o600 {
		t.Errorf("after %d changes: %v, %v", changes, info, err)
	}
}

// Issue 13: a private key that others may read, and a data folder that they may write, are warned of.
func TestWarnings(t *testing.T) {
	for mode, want := range map[os.FileMode]string{0o700: "", 0o755: "", 0o775: "", 0o777: "mode=0777", 0o773: "chmod o-rwx"} {
		dir := t.TempDir()
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		log := slog.New(slog.NewTextHandler(&out, nil))
		privatefile.WarnOfDataFolder(log, dir)
		privatefile.WarnOfDataFolder(log, filepath.Join(dir, "new"))
		if got := out.String(); (want == "") != (got == "") || !strings.Contains(got, want) || want != "" && !strings.Contains(got, dir) {
			t.Errorf("%04o: %s", mode, got)
		}
	}
}

func TestLockGivesUp(t *testing.T) {
	dir := t.TempDir()
	unlock, err := privatefile.LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := privatefile.LockDir(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while the folder is locked: %v", err)
	}
	unlock()
	again, err := privatefile.LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// If the content cannot be made, the previous version stays and nothing else is left.
func TestFailedWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for i, failure := range []error{nil, errors.New("no content")} {
		err := privatefile.Write(path, func(w io.Writer) error {
			_, _ = io.WriteString(w, strconv.Itoa(i))
			return failure
		})
		if !errors.Is(err, failure) || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one of %s with %v", err, path, failure)
		}
	}
	nowhere := filepath.Join(path, "file")
	if err := privatefile.Write(nowhere, nil); err == nil || strings.Count(err.Error(), "file") != 2 { // the temporary file is not named
		t.Errorf("in a folder that does not exist: %v", err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	if raw, err := os.ReadFile(path); err != nil || string(raw) != "0" {
		t.Errorf("content %q, %v", raw, err)
	}
}
