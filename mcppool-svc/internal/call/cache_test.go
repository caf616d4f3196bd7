package call

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func keyOf(t *testing.T, p cacheKeyParts) cacheKey {
	t.Helper()
	k, ok := p.key()
	if !ok {
		t.Fatalf("%+v has no key", p)
	}
	return k
}

func textResult(text string) *mcppoolv1.CallResult {
	return &mcppoolv1.CallResult{CallId: "c1", Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}}}
}

// Everything that may change the answer is in the key, and what does not matter is not.
func TestCacheKeys(t *testing.T) {
	base := cacheKeyParts{
		user: "ann", server: "s", tool: "t", definition: "d", configRevision: 1, connection: 1, writes: 1, changes: 1, input: `{"a":1,"b":[2]}`,
	}
	seen := map[cacheKey]string{keyOf(t, base): "base"}
	for name, change := range map[string]func(*cacheKeyParts){
		"user": func(p *cacheKeyParts) { p.user = "bob" }, "server": func(p *cacheKeyParts) { p.server = "x" },
		"tool": func(p *cacheKeyParts) { p.tool = "x" }, "definition": func(p *cacheKeyParts) { p.definition = "x" },
		"revision": func(p *cacheKeyParts) { p.configRevision++ }, "connection": func(p *cacheKeyParts) { p.connection++ },
		"writes": func(p *cacheKeyParts) { p.writes++ }, "changes": func(p *cacheKeyParts) { p.changes++ },
		"moved border": func(p *cacheKeyParts) { p.user, p.server = "anns", "" },
		"number":       func(p *cacheKeyParts) { p.input = `{"a":1.0,"b":[2]}` },
		"large number": func(p *cacheKeyParts) { p.input = `{"a":9007199254740993,"b":[2]}` },
		"larger":       func(p *cacheKeyParts) { p.input = `{"a":9007199254740992,"b":[2]}` },
	} {
		p := base
		change(&p)
		k := keyOf(t, p)
		if other, taken := seen[k]; taken {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[k] = name
	}
	same := base
	same.input = ` { "b" : [2], "a" : 1 } `
	if keyOf(t, same) != keyOf(t, base) {
		t.Error("order and space of the input matter")
	}
	for _, input := range []string{`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{`} {
		same.input = input
		if _, ok := same.key(); ok {
			t.Errorf("%s has a key", input)
		}
	}
}

func TestCacheKeepsUntilItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCache(0, time.Now)
		k := keyOf(t, cacheKeyParts{input: "{}"})
		c.put(k, textResult("one"), time.Minute)
		<-time.After(time.Minute - time.Second)
		got := c.get(k)
		if got.GetContent()[0].GetText() != "one" || !got.GetCached() || got.GetCallId() != "" {
			t.Errorf("kept: %v", got)
		}
		<-time.After(2 * time.Second)
		if c.get(k) != nil || c.Stats() != (CacheStats{Hits: 1, Misses: 1}) {
			t.Errorf("after its time: %+v", c.Stats())
		}
		c.put(k, textResult("two"), time.Minute)
		c.put(k, textResult("three"), time.Minute)
		if c.get(k).GetContent()[0].GetText() != "three" {
			t.Error("not replaced")
		}
	})
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache(100_000, time.Now)
	for i := range 1000 {
		c.put(keyOf(t, cacheKeyParts{user: "ann", writes: uint64(i), input: "{}"}), textResult(strings.Repeat("x", 1000)), time.Minute)
	}
	c.results.CleanUp()
	if n := c.results.WeightedSize(); n > 100_000 || n == 0 {
		t.Errorf("%d bytes are kept", n)
	}
	large := keyOf(t, cacheKeyParts{tool: "large", input: "{}"})
	if c.put(large, textResult(strings.Repeat("x", 20_000)), time.Minute); c.get(large) != nil {
		t.Error("a result that is too large was kept")
	}
}
