package catalog

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
)

// entries returns how many values are kept.
func entries[T any](s *shared[T]) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.values)
}

// Connections with the same list share a catalog, and catalogs share tools of the same definition. Both are forgotten with their last user, and a changed
// definition makes another catalog.
func TestCatalogsAreShared(t *testing.T) {
	k := NewInterner()
	list := func(defs ...string) *Catalog {
		t.Helper()
		var raw []json.RawMessage
		for _, def := range defs {
			raw = append(raw, json.RawMessage(def))
		}
		c, err := k.read(raw)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const a, b, changed = `{"name":"a"}`, `{"name":"b"}`, `{"name":"b","description":"x"}`
	one, same, two := list(a, b), list(a, b), list(a, changed)
	if one != same || one == two || one.Digest == two.Digest || entries(&k.catalogs) != 2 || entries(&k.tools) != 3 {
		t.Errorf("%d catalogs, %d tools; equal lists are shared: %v", entries(&k.catalogs), entries(&k.tools), one == same)
	}
	if one.Find("a") != two.Find("a") || one.Find("b").Hash == two.Find("b").Hash {
		t.Error("equal definitions are not shared, or different ones are")
	}
	runtime.KeepAlive(one)
	runtime.KeepAlive(same)
	for deadline := time.Now().Add(20 * time.Second); entries(&k.catalogs) != 1 || entries(&k.tools) != 2; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d catalogs and %d tools are kept, want those that are left", entries(&k.catalogs), entries(&k.tools))
		}
	}
	if list(a, changed) != two {
		t.Error("a catalog that is still used was forgotten")
	}
}
