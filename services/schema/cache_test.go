package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	c := newCache(3, 100)
	put := func(raw string) *Schema {
		s := &Schema{raw: raw}
		c.put(raw, s)
		return s
	}
	has := func(raw string) bool { _, ok := c.get(raw); return ok }

	a := put("a")
	put("b")
	put("c")
	if got, _ := c.get("a"); got != a { // and a is now the one used last
		t.Error("a is not there")
	}
	put("d")
	if has("b") || !has("a") || !has("c") || !has("d") {
		t.Errorf("the one unused longest should have gone: %v %v %v %v", has("a"), has("b"), has("c"), has("d"))
	}
	put(strings.Repeat("x", 99))
	if len(c.entries) != 2 || c.bytes != 100 {
		t.Errorf("%d entries of %d bytes", len(c.entries), c.bytes)
	}
	put(strings.Repeat("y", 101)) // larger than all of the cache
	put("d")
	if len(c.entries) != 2 || c.order.Len() != 2 {
		t.Errorf("%d entries", len(c.entries))
	}
	for i := range 1000 {
		put(fmt.Sprint(i))
	}
	if len(c.entries) != 3 || c.order.Len() != 3 || c.bytes != 9 {
		t.Errorf("%d entries of %d bytes", len(c.entries), c.bytes)
	}
}

func TestCompileUsesTheCache(t *testing.T) {
	const raw = `{"type":"object","title":"of TestCompileUsesTheCache"}`
	a, err := Compile(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := Compile(raw); err != nil || a != b {
		t.Errorf("compiled twice: %v", err)
	}
}
