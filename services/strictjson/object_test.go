package strictjson_test

import (
	"testing"

	"pawl.dev/services/strictjson"
)

func TestObjectKeepsOrderAndNumbers(t *testing.T) {
	o, err := strictjson.ParseObject(` {"b": 9007199254740993, "a": {"x" : 1.50}, "<": "<&>"} `)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"b":9007199254740993,"a":{"x":1.50},"<":"<&>"}`; o.String() != want {
		t.Errorf("got %s, want %s", o, want)
	}
	c := o.Clone()
	c.Set("new", "1")
	c.Delete("a")
	c.Delete("nothing")
	if want := `{"b":9007199254740993,"<":"<&>","new":1}`; c.String() != want {
		t.Errorf("the copy is %s, want %s", c, want)
	}
	if o.Has("new") || !o.Has("a") {
		t.Errorf("changing the copy changed the original: %s", o)
	}
}

func TestParseObjectRefuses(t *testing.T) {
	for _, text := range []string{"[]", "1", `"x"`, "{", `{"a":}`, `{"a":1} x`, "nonsense", `{"a":1}{}`, `{"a":1,"a":2}`} {
		if o, err := strictjson.ParseObject(text); err == nil {
			t.Errorf("%s became %s", text, o)
		}
	}
	if o, err := strictjson.ParseObject("  "); err != nil || o.String() != "{}" {
		t.Errorf("nothing became %s, %v", o, err)
	}
}
