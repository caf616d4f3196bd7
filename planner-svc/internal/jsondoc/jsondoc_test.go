package jsondoc

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObjectKeepsOrderAndNumbers(t *testing.T) {
	o, err := Parse(` {"b": 9007199254740993, "a": {"x" : 1.50}, "b": 2e400, "<": "<&>"} `)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"b":2e400,"a":{"x":1.50},"<":"<&>"}`; o.String() != want {
		t.Errorf("got %s, want %s", o, want)
	}
	c := o.Clone()
	c.Set("new", "1")
	c.Delete("a")
	c.Delete("nothing")
	if want := `{"b":2e400,"<":"<&>","new":1}`; c.String() != want {
		t.Errorf("the copy is %s, want %s", c, want)
	}
	if o.Has("new") || !o.Has("a") {
		t.Errorf("changing the copy changed the original: %s", o)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"[]", "1", `"x"`, "{", `{"a":}`, `{"a":1} x`, "nonsense", `{"a":1}{}`} {
		if o, err := Parse(text); err == nil {
			t.Errorf("%s became %s", text, o)
		}
	}
	if o, err := Parse("  "); err != nil || o.String() != "{}" {
		t.Errorf("nothing became %s, %v", o, err)
	}
}

func TestTexts(t *testing.T) {
	for raw, want := range map[string][2]string{
		`"a\n<"`: {"string", "a\n<"}, `{}`: {"object", "{}"}, `[1]`: {"array", "[1]"}, ` true`: {"boolean", " true"},
		`null`: {"null", "null"}, `-1`: {"number", "-1"}, ``: {"", ""},
	} {
		if got := [2]string{Kind(raw), Text(raw)}; got != want {
			t.Errorf("%s: %v, want %v", raw, got, want)
		}
	}
	if d := cmp.Diff([]string{"1", `{"a":2}`, `"x"`}, Items(` [1, {"a": 2}, "x"]`)); d != "" {
		t.Error(d)
	}
	if Items("{}") != nil {
		t.Error("an object has items")
	}
	if got := String("\"<é"); got != `"\"<é"` {
		t.Errorf("got %s", got)
	}
}
