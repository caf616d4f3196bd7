package audit_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl.dev/services/audit"
)

func open(t *testing.T, path string, log *slog.Logger) *audit.Log {
	t.Helper()
	l, err := audit.Open(path, func() time.Time { return time.Unix(5, 0) }, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Two logs write whole lines to one file, also after it was truncated.
func TestOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	a, b := open(t, path, slog.Default()), open(t, path, slog.Default())
	a.Record(t.Context(), "before")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	const each = 200
	var writing sync.WaitGroup
	for i, l := range []*audit.Log{a, b, a, b} {
		writing.Go(func() {
			for n := range each {
				l.Record(t.Context(), "change", slog.String("who", fmt.Sprint(i)), slog.Int("n", n), slog.String("text", strings.Repeat("x", 300)))
			}
		})
	}
	writing.Wait()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var r struct {
			Time time.Time
			Msg  string
			Who  string
			N    int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Msg != "change" || !r.Time.Equal(time.Unix(5, 0)) || r.N != next[r.Who] {
			t.Fatalf("%s: %v; want the %d. of %s", line, err, next[r.Who], r.Who)
		}
		next[r.Who]++
	}
	if next["0"] != each || next["1"] != each || next["2"] != each || next["3"] != each {
		t.Errorf("records: %v", next)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode: %v, %v", info, err)
	}
}

// A file that cannot be written is refused at the start, and reported later.
func TestFileThatCannotBeWritten(t *testing.T) {
	if _, err := audit.Open(t.TempDir(), time.Now, slog.Default()); err == nil || !strings.Contains(err.Error(), "choose a file that can be written") {
		t.Errorf("a folder: %v", err)
	}
	var log bytes.Buffer
	l := open(t, filepath.Join(t.TempDir(), "audit"), slog.New(slog.NewTextHandler(&log, nil)))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.Record(t.Context(), "change")
	if !strings.Contains(log.String(), "writing an audit record failed") || !strings.Contains(log.String(), "record=change") {
		t.Errorf("logged: %s", log.String())
	}
}

func TestNoFile(t *testing.T) {
	l := open(t, "", nil)
	l.Record(t.Context(), "change")
	if err := l.Close(); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
}
