package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestCacheIsBounded(t *testing.T) {
	c := cache{maxSchemas: 3, maxBytes: 100}
	put := func(raw string) { c.put(raw, &Schema{raw: raw}) }
	for i := range 1000 {
		put(fmt.Sprint(i))
		if c.get(fmt.Sprint(i)) == nil || len(c.schemas) > 3 {
			t.Fatalf("after %d: %d schemas", i, len(c.schemas))
		}
	}
	for i := range 10 {
		put(strings.Repeat("x", 40+i))
		if sum := len(strings.Join(slices.Collect(maps.Keys(c.schemas)), "")); sum > 100 || sum != c.bytes {
			t.Fatalf("%d bytes, counted as %d", sum, c.bytes)
		}
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
