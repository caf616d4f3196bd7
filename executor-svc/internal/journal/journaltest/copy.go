package journaltest

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"testing"

	"pawl.dev/executor-svc/internal/journal/wal"
)

const (
	// headSize is the size of the part of a log file that shows whether the file was reused.
	headSize = 64
	// metaSize is the size of the part of the store's file that shows whether the file was changed.
	metaSize = 2 * chunk
	// chunk is how many bytes are read at once.
	chunk = 4096
)

// Files returns the files of a journal in the order in which Copy reads them: the log files, then the file to which they are applied.
func Files(path string) []string {
	logs := wal.Paths(path)
	return append(logs[:], path)
}

// Copy copies the files of a store in use, as a process that is killed now would leave them: first the log files, then the store's file. It
// starts again if meanwhile a log file was reused or the store's file changed.
func Copy(t testing.TB, from, to []string) {
	t.Helper()
	contents := make([][]byte, len(from))
	logs, store := from[:len(from)-1], from[len(from)-1]
	for same := false; !same; {
		before := heads(t, logs)
		for i, name := range logs {
			contents[i] = readBackwards(t, name)
		}
		raw := head(t, store, math.MaxInt64)
		contents[len(logs)] = raw
		same = bytes.Equal(raw[:min(len(raw), metaSize)], head(t, store, metaSize)) &&
			slices.EqualFunc(before, heads(t, logs), bytes.Equal)
	}
	for i, name := range to {
		if err := os.WriteFile(name, contents[i], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func heads(t testing.TB, names []string) (all [][]byte) {
	t.Helper()
	for _, name := range names {
		all = append(all, head(t, name, headSize))
	}
	return all
}

func head(t testing.TB, name string, size int64) []byte {
	t.Helper()
	return read(t, name, func(f *os.File) ([]byte, error) { return io.ReadAll(io.LimitReader(f, size)) })
}

// readBackwards reads a file from its end to its beginning, so that a copy that contains a record also contains all records before it.
func readBackwards(t testing.TB, name string) []byte {
	t.Helper()
	return read(t, name, func(f *os.File) ([]byte, error) {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		raw := make([]byte, info.Size())
		for at := (len(raw) - 1) / chunk * chunk; at >= 0; at -= chunk {
			if _, err := f.ReadAt(raw[at:min(at+chunk, len(raw))], int64(at)); err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
		}
		return raw, nil
	})
}

func read(t testing.TB, name string, from func(f *os.File) ([]byte, error)) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	raw, err := from(f)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
