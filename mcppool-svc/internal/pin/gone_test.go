package pin

import (
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
)

// What is kept of a server that vanished from its file outlives a mistake in that file, and not much more.
func TestPinsOfVanishedServers(t *testing.T) {
	st := newStore(t)
	now := time.Unix(1_000_000, 0)
	files := &registry.Server{ID: "files", FromConfig: true, Stdio: &registry.Stdio{Command: "files"}}
	other := &registry.Server{ID: "other", FromConfig: true, Stdio: &registry.Stdio{Command: "other"}}
	// begin is a start of the pool with these servers.
	begin := func(there ...*registry.Server) *Book {
		t.Helper()
		b, err := Open(st, func() time.Time { return now })
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Tidy(there); err != nil {
			t.Fatal(err)
		}
		return b
	}
	count := func() (n int) {
		t.Helper()
		err := st.Load(bucketSeen, func(key string, _ []byte) error {
			if _, name := cut(key); name != firstName {
				n++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	b := begin(files, other)
	held(t, b, files, tools(t, "read=v1", "write=v1"))
	held(t, b, other, tools(t, "a=v1"))
	if count() != 3 {
		t.Fatalf("%d entries", count())
	}
	begin(other)
	now = now.Add(KeepGone - 1)
	if b = begin(other, files); held(t, b, files, tools(t, "read=v2", "write=v1")) != "read" || count() != 3 {
		t.Errorf("back in time: %d entries, or a changed tool is taken as new", count())
	}
	begin(other)
	now = now.Add(KeepGone - 1)
	begin(other) // its time began when it was found gone again
	if count() != 4 {
		t.Errorf("%d entries while it is gone", count())
	}
	now = now.Add(1)
	if b = begin(other); count() != 1 {
		t.Errorf("%d entries after its time", count())
	}
	if got := held(t, b, other, tools(t, "a=v2")); got != "a" {
		t.Errorf("another server's: %q", got)
	}
}
