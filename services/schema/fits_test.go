package schema

import (
	"strings"
	"testing"

	"pawl.dev/services/strictjson"
)

// For the usual schemas of tools the text alone is enough to accept an input; one that does not fit is never accepted.
func TestFits(t *testing.T) {
	const all = `{"type":"object","description":"of all","properties":{
		"path":{"type":"string","minLength":1,"maxLength":5,"description":"where","default":"x"},"mode":{"type":"string","enum":["r","w"]},
		"limit":{"type":"integer","minimum":1,"maximum":100},"share":{"type":"number"},"deep":{"type":["boolean","null"]},"any":true,"none":{},
		"tags":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2},
		"at":{"type":"object","properties":{"x":{"type":"integer"}},"required":["x","y"],"additionalProperties":{"type":"integer"},"maxProperties":3}
	},"required":["path"],"additionalProperties":false}`
	const draft7 = `{"$schema":"http://json-schema.org/draft-07/schema#","items":{"type":"string"},"minProperties":1}`
	cases := []struct {
		schema, doc string
		quick, fits bool
	}{
		{all, `{"path":"a"}`, true, true},
		{all, ` { "path" : "\u00e9\n" , "mode":"r","limit": 100 ,"share":-1.5e3,"deep":null,"any":[1],"none":{"a":{}},"tags":["a","b"],"at":{"x":1,"y":-2} } `, true, true},
		{all, `{"p\u0061th":"長長長長長"}`, true, true},
		{all, `{"path":"a","limit":1.0}`, false, true},
		{all, `{"path":"a","limit":1e1}`, false, true},
		{all, `{"path":"a","limit":1.5}`, false, false},
		{all, `{"path":"a","limit":101}`, false, false},
		{all, `{"path":"a","limit":0}`, false, false},
		{all, `{"path":"a","limit":99999999999999999999}`, false, false},
		{all, `{"path":""}`, false, false},
		{all, `{"path":"abcdef"}`, false, false},
		{all, `{"path":1}`, false, false},
		{all, `{}`, false, false},
		{all, `{"path":"a","mode":"x"}`, false, false},
		{all, `{"path":"a","mode":1}`, false, false},
		{all, `{"path":"a","more":1}`, false, false},
		{all, `{"path":"a","tags":[]}`, false, false},
		{all, `{"path":"a","tags":["a","b","c"]}`, false, false},
		{all, `{"path":"a","tags":[1]}`, false, false},
		{all, `{"path":"a","at":{"x":1}}`, false, false},
		{all, `{"path":"a","at":{"x":1,"y":"1"}}`, false, false},
		{all, `{"path":"a","at":{"x":1,"y":1,"z":1,"w":1}}`, false, false},
		{all, `[]`, false, false},
		{draft7, `["a"]`, true, true},
		{draft7, `[1]`, false, false},
		{draft7, `{}`, false, false},
		{draft7, `"x"`, true, true},
		{`{"properties":{"a":false}}`, `{"b":1}`, true, true},
		{`{"type":"string","format":"date"}`, `"2020-01-01"`, false, true},
		{`{"type":"string","pattern":"^a"}`, `"a"`, false, true},
		{`{"enum":["a",1]}`, `1`, false, true},
		{`{"enum":["a"]}`, `1`, false, false},
		{`{"minimum":0.5}`, `1`, false, true},
		{`{"minimum":1}`, `1.5`, false, true},
		{`{"items":{"$ref":"#"}}`, `[]`, true, true},
		{`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{}}}`, `[1]`, false, true},
		{`{"type":"object","required":["a"],"additionalProperties":false}`, `{"a":1}`, false, false},
	}
	for _, c := range cases {
		s, err := Compile(c.schema)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.graph.fits(s.compiled, c.doc); got != c.quick {
			t.Errorf("%s by %.60s: fits says %v, want %v", c.doc, c.schema, got, c.quick)
		}
		if err := s.Validate(c.doc); (err == nil) != c.fits {
			t.Errorf("%s by %.60s: %v", c.doc, c.schema, err)
		}
	}
}

// A document that would take too much work is for counting, not for quick.
func TestQuickIsBounded(t *testing.T) {
	s, err := Compile(`{"items":{"type":"array","items":{"type":"integer"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	long := "[[" + strings.Repeat("1,", 1_100_000) + "1]]"
	if s.graph.isCheap(len(long)) || !s.graph.fits(s.compiled, `[[1]]`) || s.Validate(long) == nil {
		t.Error("it was not counted")
	}
}

// If fits accepts a document, the validator does.
func FuzzFits(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],"additionalProperties":{"enum":["x"]}}`, `{"a":1,"b":"x"}`)
	f.Add(`{"items":{"type":["string","null"],"maxLength":2,"minLength":1},"maxItems":3,"minItems":1}`, `["\ud83d\ude00",null]`)
	f.Add(`{"maxProperties":1,"minProperties":1,"required":["\u0000"]}`, `{"\u0000":-0}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","maximum":3}`, `3.0`)
	f.Fuzz(func(t *testing.T, raw, doc string) {
		s, err := Compile(raw)
		if err != nil || !s.graph.isCheap(len(doc)) {
			return
		}
		if text, err := strictjson.Parse(doc, strictjson.Rules{}); err != nil || text.CheckNumbers() != nil {
			return
		}
		if !s.graph.fits(s.compiled, doc) {
			return
		}
		if err := s.validate(doc); err != nil {
			t.Fatalf("%s by %s: %v", doc, raw, err)
		}
	})
}
