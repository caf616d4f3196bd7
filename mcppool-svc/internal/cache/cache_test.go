package cache

import (
	"strconv"
	"strings"
	"testing"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func keyOf(t *testing.T, o Of) Key {
	t.Helper()
	k, ok := o.Key()
	if !ok {
		t.Fatalf("%+v has no key", o)
	}
	return k
}

func result(text string) *mcppoolv1.CallResult {
	return &mcppoolv1.CallResult{CallId: "c1", Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: text}}}}
}

// Everything that may change the answer is in the key, and what does not matter is not.
func TestKeys(t *testing.T) {
	base := Of{User: "ann", Server: "s", Tool: "t", Definition: "d", ConfigRevision: 1, Connection: 1, Writes: 1, Changes: 1, Input: `{"a":1,"b":[2]}`}
	seen := map[Key]string{keyOf(t, base): "base"}
	for name, change := range map[string]func(*Of){
		"user": func(o *Of) { o.User = "bob" }, "server": func(o *Of) { o.Server = "x" }, "tool": func(o *Of) { o.Tool = "x" },
		"definition": func(o *Of) { o.Definition = "x" }, "revision": func(o *Of) { o.ConfigRevision++ },
		"connection": func(o *Of) { o.Connection++ }, "writes": func(o *Of) { o.Writes++ }, "changes": func(o *Of) { o.Changes++ },
		"moved border": func(o *Of) { o.User, o.Server = "anns", "" }, "number": func(o *Of) { o.Input = `{"a":1.0,"b":[2]}` },
		"large number": func(o *Of) { o.Input = `{"a":9007199254740993,"b":[2]}` }, "larger": func(o *Of) { o.Input = `{"a":9007199254740992,"b":[2]}` },
	} {
		o := base
		change(&o)
		k := keyOf(t, o)
		if other, taken := seen[k]; taken {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[k] = name
	}
	same := base
	same.Input = ` { "b" : [2], "a" : 1 } `
	if keyOf(t, same) != keyOf(t, base) {
		t.Error("order and space of the input matter")
	}
	for _, input := range []string{`{"a":1,"a":2}`, `{"a":"\ud800"}`, `{`} {
		same.Input = input
		if _, ok := same.Key(); ok {
			t.Errorf("%s has a key", input)
		}
	}
}

func TestKeptUntilItsTime(t *testing.T) {
	now := time.Unix(0, 0)
	c := New(Config{Now: func() time.Time { return now }})
	k := keyOf(t, Of{Input: "{}"})
	c.Put(k, "ann", result("one"), time.Minute)
	now = now.Add(time.Minute - 1)
	got := c.Get(k)
	if got.GetContent()[0].GetText() != "one" || !got.GetCached() || got.GetCallId() != "" {
		t.Errorf("kept: %v", got)
	}
	now = now.Add(1)
	if c.Get(k) != nil || c.Stats() != (Stats{Hits: 1, Misses: 1}) {
		t.Errorf("after its time: %+v", c.Stats())
	}
	c.Put(k, "ann", result("two"), time.Minute)
	c.Put(k, "ann", result("three"), time.Minute)
	if c.Get(k).GetContent()[0].GetText() != "three" || c.Stats().Count != 1 {
		t.Error("not replaced")
	}
	now = now.Add(time.Minute)
	c.sweep()
	if s := c.Stats(); s.Count != 0 || s.Bytes != 0 {
		t.Errorf("swept: %+v", s)
	}
	c.Put(k, "ann", result("none"), 0)
	if c.Stats().Count != 0 {
		t.Error("kept without a time")
	}
}

// Number and bytes are bounded, and who keeps much loses its own.
func TestBounds(t *testing.T) {
	c := New(Config{MaxCount: 10, MaxBytes: 100_000})
	bobs := keyOf(t, Of{User: "bob", Input: "{}"})
	c.Put(bobs, "bob", result("bob's"), time.Minute)
	for i := range 1000 {
		c.Put(keyOf(t, Of{User: "ann", Writes: uint64(i), Input: "{}"}), "ann", result(strconv.Itoa(i)), time.Minute)
		if s := c.Stats(); s.Count > 10 || s.Bytes > 100_000 || len(c.kept) > 10 {
			t.Fatalf("%+v", s)
		}
	}
	if c.Get(bobs) == nil {
		t.Error("one user pushed out another's")
	}
	c.Put(keyOf(t, Of{Tool: "large", Input: "{}"}), "ann", result(strings.Repeat("x", 20_000)), time.Minute)
	if c.Stats().Count != 10 || c.Get(keyOf(t, Of{Tool: "large", Input: "{}"})) != nil {
		t.Error("a result that is too large was kept")
	}
}
