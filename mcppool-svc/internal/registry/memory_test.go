package registry

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/store"
)

func openWays(t *testing.T, dir string, now func() time.Time) (*Memory, store.Store) {
	t.Helper()
	st, err := store.Open(dir, Buckets()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	w, err := NewTransportHints(st, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return w, st
}

// TestWays: how a server was reached outlives the process, and can be forgotten.
func TestWays(t *testing.T) {
	dir := t.TempDir()
	w, st := openWays(t, dir, time.Now)
	w.Remember("a", "sse")
	w.Remember("b", "discovery")
	w.Remember("b", "")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	w, _ = openWays(t, dir, time.Now)
	if a, b := w.Recall("a"), w.Recall("b"); a != "sse" || b != "" {
		t.Errorf("a is remembered as %q, b as %q", a, b)
	}
}

// TestWaysAge: what a server took yesterday is asked for again, once.
func TestWaysAge(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w, _ := openWays(t, "", func() time.Time { return now })
	w.Remember("a", "sse")
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{transportHintAge - time.Second, "sse"}, {transportHintAge, ""}, {-time.Hour, ""}} {
		if now = now.Add(tt.after); w.Recall("a") != tt.want {
			t.Errorf("after %v: %q", tt.after, w.Recall("a"))
		}
		now = now.Add(-tt.after)
	}
	now = now.Add(transportHintAge)
	w.Remember("a", "sse")
	if got := w.Recall("a"); got != "sse" {
		t.Errorf("found out again: %q", got)
	}
}

// TestWaysAreBounded: the oldest give way.
func TestWaysAreBounded(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w, _ := openWays(t, "", func() time.Time { now = now.Add(time.Millisecond); return now })
	for i := range maxRemembered + 2 {
		w.Remember(fmt.Sprint(i), "sse")
	}
	if w.Recall("0") != "" || w.Recall("1") != "" || w.Recall("2") != "sse" || len(w.entries) != maxRemembered {
		t.Errorf("%d are remembered, the first as %q", len(w.entries), w.Recall("0"))
	}
}

// TestAskers: what is remembered of one kind is not of the other.
func TestAskers(t *testing.T) {
	dir := t.TempDir()
	ways, st := openWays(t, dir, time.Now)
	askers, err := NewAnonymousElicitors(st, time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	askers.Remember("a", "asks")
	ways.Remember("b", "sse")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	ways, st = openWays(t, dir, time.Now)
	if askers, err = NewAnonymousElicitors(st, time.Now, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if ways.Recall("a") != "" || askers.Recall("a") != "asks" || askers.Recall("b") != "" {
		t.Error("the two are mixed, or forgotten")
	}
}
