package catalog

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"
)

// Catalogs share tools of the same definition, which are forgotten with the last catalog.
func TestKnownToolsAreShared(t *testing.T) {
	k := NewInterner()
	list := func(names ...string) *Catalog {
		t.Helper()
		var raw []json.RawMessage
		for _, name := range names {
			raw = append(raw, json.RawMessage(`{"name":"`+name+`","inputSchema":{"type":"object"}}`))
		}
		c, err := read(raw, time.Time{}, k)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	one, two := list("a", "b"), list("a", "c")
	if one.Find("a") != two.Find("a") || one.Find("b") == two.Find("c") || len(k.tools) != 3 {
		t.Errorf("%d tools, of which a is shared: %v", len(k.tools), one.Find("a") == two.Find("a"))
	}
	runtime.KeepAlive(one)
	for deadline := time.Now().Add(20 * time.Second); ; runtime.GC() {
		k.mu.Lock()
		n := len(k.tools)
		k.mu.Unlock()
		if n == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d tools are kept, want those of the catalog that is left", n)
		}
	}
	if two.Find("a") == nil || list("a").Find("a") != two.Find("a") {
		t.Error("a tool that is still used was forgotten")
	}
}
