package strict

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestObject(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"k%d":1`, i))
	}
	for text, want := range map[string]string{
		`[]`: "not a JSON object", `"a"`: "not a JSON object", `{"a":1,"A":2}`: "comes twice", `{"a":1,"\u0061":2}`: "comes twice",
		`{` + strings.Join(many, ",") + `,"K3":1}`: "comes twice", `{"a"`: "not a JSON object", `{"a":1`: "not a JSON object", ``: "not a JSON object",
	} {
		if _, err := Object([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// Whatever is valid and unambiguous is split as the standard library does.
func FuzzObject(f *testing.F) {
	for _, text := range []string{`{}`, ` { "a" : [ {"b":"}\""} , 1 ] , "c":null,"d":-1.5e3 } `, `{"a":{"a":1},"b":"x\\"}`, `{"a":true,"A":1}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Object([]byte(text))
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q was split, but is not an object: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}

func TestElements(t *testing.T) {
	var got []string
	err := Elements([]byte(` [ {"a":[1,2]} , "],\"", [] ,-1.5e3,null ] `), func(raw json.RawMessage) error {
		got = append(got, string(raw))
		return nil
	})
	if diff := cmp.Diff([]string{`{"a":[1,2]}`, `"],\""`, `[]`, `-1.5e3`, `null`}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	for _, text := range []string{``, `{}`, `"a"`, `[`, `[1`, `[1,`} {
		if err := Elements([]byte(text), func(json.RawMessage) error { return nil }); err == nil {
			t.Errorf("%q is taken for an array", text)
		}
	}
	stop := errors.New("enough")
	if err := Elements([]byte(`[1,2]`), func(json.RawMessage) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// Whatever is a valid array is split as the standard library does.
func FuzzElements(f *testing.F) {
	for _, text := range []string{`[]`, ` [ {"b":"]\""} , [ 1 ] , "c" , -1.5e3,null ] `} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got []json.RawMessage
		err := Elements([]byte(text), func(raw json.RawMessage) error {
			got = append(got, raw)
			return nil
		})
		if err != nil || !json.Valid([]byte(text)) {
			return
		}
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%q was split, but is not an array: %v", text, err)
		}
		if len(want) == 0 {
			want = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
