package call

import (
	"encoding/json"
	"testing"
)

// SEP-1034: a form's defaults fill in what the person left out, and nothing else.
func TestWithDefaults(t *testing.T) {
	const form = `{"type":"object","properties":{"age":{"type":"integer","default":12345678901234567890},"name":{"type":"string","default":"Ann"},"ok":{"type":"boolean","default":false},"free":{"type":"string"},"null":{"type":"string","default":null}}}`
	for _, tt := range []struct{ name, form, content, want string }{
		{"nothing said", form, ``, `{"age":12345678901234567890,"name":"Ann","ok":false}`},
		{"an empty answer", form, `{}`, `{"age":12345678901234567890,"name":"Ann","ok":false}`},
		{"said otherwise", form, `{"name":"Bob","ok":true}`, `{"age":12345678901234567890,"name":"Bob","ok":true}`},
		{"left empty", form, `{"name":""}`, `{"age":12345678901234567890,"name":"","ok":false}`},
		{"all said", form, `{ "age": 1, "name": "x", "ok": true }`, `{ "age": 1, "name": "x", "ok": true }`},
		{"nothing suggested", `{"type":"object","properties":{"a":{"type":"string"}}}`, `{}`, `{}`},
		{"no properties", `{"type":"object"}`, `{"a":1}`, `{"a":1}`},
		{"no object", form, `[1]`, `[1]`},
		{"a key twice", form, `{"name":"a","name":"b"}`, `{"name":"a","name":"b"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := withDefaults(tt.form, json.RawMessage(tt.content)); string(got) != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
