package registry

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
)

func openHints(t *testing.T, dir string, now func() time.Time) (*Memory, store.Store) {
	t.Helper()
	st, err := store.Open(dir, Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	hints, _, err := NewMemories(st, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return hints, st
}

// TestHintsAreStored: a hint outlives the process, and can be forgotten.
func TestHintsAreStored(t *testing.T) {
	dir := t.TempDir()
	hints, st := openHints(t, dir, time.Now)
	hints.Remember("a", "sse")
	hints.Remember("b", "discovery")
	hints.Remember("b", "")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	hints, _ = openHints(t, dir, time.Now)
	if a, b := hints.Recall("a"), hints.Recall("b"); a != "sse" || b != "" {
		t.Errorf("a is remembered as %q, b as %q", a, b)
	}
}

// TestHintsExpire: a hint is not recalled after transportHintAge, nor if its time is in the future, until it is remembered again.
func TestHintsExpire(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hints, _ := openHints(t, "", func() time.Time { return now })
	hints.Remember("a", "sse")
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{transportHintAge - time.Second, "sse"}, {transportHintAge, ""}, {-time.Hour, ""}} {
		if now = now.Add(tt.after); hints.Recall("a") != tt.want {
			t.Errorf("after %v: %q", tt.after, hints.Recall("a"))
		}
		now = now.Add(-tt.after)
	}
	now = now.Add(transportHintAge)
	hints.Remember("a", "sse")
	if got := hints.Recall("a"); got != "sse" {
		t.Errorf("remembered again: %q", got)
	}
}

// TestHintsAreBounded: the oldest are dropped.
func TestHintsAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hints, _ := openHints(t, "", func() time.Time { now = now.Add(time.Millisecond); return now })
	for i := range maxRemembered + 2 {
		hints.Remember(fmt.Sprint(i), "sse")
	}
	if hints.Recall("0") != "" || hints.Recall("1") != "" || hints.Recall("2") != "sse" || len(hints.entries) != maxRemembered {
		t.Errorf("%d are remembered, the first as %q", len(hints.entries), hints.Recall("0"))
	}
}

// TestMemoriesAreSeparate: transport hints and anonymous elicitors share a store, but no entries.
func TestMemoriesAreSeparate(t *testing.T) {
	dir := t.TempDir()
	hints, st := openHints(t, dir, time.Now)
	_, elicitors, err := NewMemories(st, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	elicitors.Remember("a", "asks")
	hints.Remember("b", "sse")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	hints, st = openHints(t, dir, time.Now)
	if _, elicitors, err = NewMemories(st, time.Now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if hints.Recall("a") != "" || elicitors.Recall("a") != "asks" || elicitors.Recall("b") != "" {
		t.Error("hints and elicitors are mixed, or forgotten")
	}
}
