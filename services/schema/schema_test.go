package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
)

func compile(t testing.TB, raw string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(raw)
	if err != nil {
		t.Fatalf("Compile(%s): %v", raw, err)
	}
	return s
}

func TestNoSchemaAcceptsEverything(t *testing.T) {
	for _, raw := range []string{"", "  ", "{}", " {} ", "true"} {
		s := compile(t, raw)
		for _, doc := range []string{`{}`, `{"a":1e400}`, `[1]`} {
			if err := s.Validate(doc); err != nil {
				t.Errorf("%q: %v", raw, err)
			}
		}
		if err := s.Validate(`{`); err == nil {
			t.Errorf("%q accepts what is not JSON", raw)
		}
		if p := s.Properties(); len(p) != 0 {
			t.Errorf("%q has properties %v", raw, p)
		}
	}
}

// The messages are for a person, or for a model that has to correct itself (A15, A18, D5).
func TestProblemsAreUnderstandable(t *testing.T) {
	object := func(properties string) string { return `{"type":"object","properties":{` + properties + `}}` }
	cases := []struct{ name, schema, doc, want string }{
		{"type", object(`"path":{"type":"string"}`), `{"path":5}`, `"/path": must be a string, is a number`},
		{"types", object(`"path":{"type":["string","null"]}`), `{"path":5}`, `"/path": must be null or a string, is a number`},
		{"top type", `{"type":"object"}`, `[]`, `must be an object, is an array`},
		{"integer", object(`"n":{"type":"integer"}`), `{"n":1.5}`, `"/n": must be an integer, is a number`},
		{"required", `{"required":["b","a"]}`, `{}`, `required property "a" is missing; required property "b" is missing`},
		{"nested required", object(`"o":{"required":["x"]}`), `{"o":{}}`, `"/o": required property "x" is missing`},
		{"unknown", `{"properties":{"a":{}},"additionalProperties":false}`, `{"b":1,"a":1,"c":2}`, `has unknown properties "b", "c"`},
		{"misspelt", `{"properties":{"path":{},"text":{}},"additionalProperties":false}`, `{"pth":1}`, `has unknown property "pth", did you mean "path"?`},
		{"misspelt twice", `{"properties":{"path":{},"text":{}},"additionalProperties":false}`, `{"pth":1,"Text":2,"other":3}`,
			`has unknown properties "Text", "other", "pth", did you mean "text" and "path"?`},
		{"misspelt and required", `{"properties":{"path":{}},"required":["path"],"additionalProperties":false}`, `{"pth":1}`,
			`has unknown property "pth", did you mean "path"?; required property "path" is missing`},
		{"misspelt where anything goes", `{"properties":{"path":{},"mode":{}},"required":["path"]}`, `{"pth":1,"mode":2}`,
			`required property "path" is missing; "pth" is not known, did you mean "path"?`},
		{"nothing like it", `{"properties":{"path":{},"pat":{}},"required":["path"]}`, `{"pat":1,"colour":2}`, `required property "path" is missing`},
		{"misspelt inside", `{"properties":{"o":{"$ref":"#/$defs/o"},"l":{"items":{"$ref":"#/$defs/o"}}},
			"$defs":{"o":{"properties":{"start_line":{}},"additionalProperties":false}}}`, `{"o":{"startLine":1},"l":[{"start_lin":1}]}`,
			`"/l/0": has unknown property "start_lin", did you mean "start_line"?; "/o": has unknown property "startLine", did you mean "start_line"?`},
		{"unknown one", `{"additionalProperties":false}`, `{"b":1}`, `has unknown property "b"`},
		{"unevaluated", `{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"b":1}`, `"/b": is not allowed here`},
		{"enum", object(`"a":{"enum":["x","y",1]}`), `{"a":"z"}`, `"/a": must be one of "x", "y", 1; is "z"`},
		{"enum with nothing", object(`"a":{"enum":["","x"]}`), `{"a":"z"}`, `"/a": must be one of "x"; is "z"`},
		{"enum of nothing", object(`"a":{"enum":[""]}`), `{"a":"z"}`, `"/a": must be one of ""; is "z"`},
		{"const", object(`"a":{"const":{"k":1}}`), `{"a":2}`, `"/a": must be {"k":1}; is 2`},
		{"minimum", object(`"a":{"minimum":1.5}`), `{"a":1}`, `"/a": must be at least 1.5, is 1`},
		{"maximum", object(`"a":{"maximum":10}`), `{"a":11}`, `"/a": must be at most 10, is 11`},
		{"exclusive", object(`"a":{"exclusiveMinimum":0,"exclusiveMaximum":1}`), `{"a":0}`, `"/a": must be greater than 0, is 0`},
		{"less", object(`"a":{"exclusiveMaximum":1}`), `{"a":1}`, `"/a": must be less than 1, is 1`},
		{"multiple", object(`"a":{"multipleOf":0.1}`), `{"a":0.25}`, `"/a": must be a multiple of 0.1, is 0.25`},
		{"min length", object(`"a":{"minLength":1}`), `{"a":""}`, `"/a": must have at least 1 character, has 0`},
		{"max length", object(`"a":{"maxLength":2}`), `{"a":"字字字"}`, `"/a": must have at most 2 characters, has 3`},
		{"min items", object(`"a":{"minItems":2}`), `{"a":[1]}`, `"/a": must have at least 2 items, has 1`},
		{"max items", object(`"a":{"maxItems":1}`), `{"a":[1,2]}`, `"/a": must have at most 1 item, has 2`},
		{"members", `{"minProperties":1}`, `{}`, `must have at least 1 member, has 0`},
		{"many members", `{"maxProperties":0}`, `{"a":1}`, `must have at most 0 members, has 1`},
		{"unique", object(`"a":{"uniqueItems":true}`), `{"a":[1,2,1.0]}`, `"/a": must have different items; items 0 and 2 are the same`},
		{"pattern", object(`"a":{"pattern":"^x"}`), `{"a":"y"}`, `"/a": must match the pattern ^x, is "y"`},
		{"format", object(`"a":{"format":"date"}`), `{"a":"tomorrow"}`, `"/a": must be a valid date, is "tomorrow"`},
		{"not", object(`"a":{"not":{"const":1}}`), `{"a":1}`, `"/a": must not fit the schema under "not"`},
		{"false", object(`"a":false`), `{"a":1}`, `"/a": is not allowed here`},
		{"any of types", object(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`), `{"a":5}`, `"/a": must be null or a string, is a number`},
		{"any of", object(`"a":{"anyOf":[{"required":["x"]},{"properties":{"y":{"type":"string"}}}]}`), `{"a":{"y":1}}`,
			`"/a": fits none of the alternatives: (1) required property "x" is missing; (2) "/a/y": must be a string, is a number`},
		{"one of several", object(`"a":{"oneOf":[{"type":"integer"},{"minimum":0},{"type":"string"}]}`), `{"a":5}`,
			`"/a": must fit exactly one alternative, fits alternatives 1 and 2`},
		{"one of none", object(`"a":{"oneOf":[{"type":"integer"},{"type":"string"}]}`), `{"a":null}`, `"/a": must be an integer or a string, is null`},
		{"all of", `{"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, `required property "a" is missing; required property "b" is missing`},
		{"ref", `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, `"/a": must be a string, is a number`},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `has "a" and so must have "b" too`},
		{"dependency, draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`, `{"a":1}`, `has "a" and so must have "b" too`},
		{"names", `{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `the property name "ab" is not allowed: must have at most 1 character, has 2`},
		{"pointer", object(`"a/b~c":{"items":{"type":"string"}}`), `{"a/b~c":["x",1]}`, `"/a~1b~0c/1": must be a string, is a number`},
		{"several", object(`"b":{"type":"string"},"a":{"type":"string"}`), `{"a":1,"b":2}`, `"/a": must be a string, is a number; "/b": must be a string, is a number`},
		{"not JSON", object(``), `{"a":tru}`, `it is not JSON that can be used: at byte 8 in "/a": invalid character '}' in literal true (expecting 'e')`},
		{"twice", object(``), `{"a":1,"a":2}`, `it is not JSON that can be used: at byte 7: the key "a" comes twice`},
		{"absurd number", object(`"a":{"type":"integer"}`), `{"a":1e999999999}`, `it is not JSON that can be used: at byte 5 in "/a": the number 1e999999999 has an exponent beyond ±2000`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := compile(t, c.schema).Validate(c.doc)
			var invalid *schema.Invalid
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 {
				t.Fatalf("Validate = %#v, want *Invalid", err)
			}
			if err.Error() != c.want {
				t.Errorf("\n got %s\nwant %s", err, c.want)
			}
		})
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	s := compile(t, `{"items":{"type":"string"}}`)
	err := s.Validate("[" + strings.Repeat("1,", 29) + "1]")
	if !strings.HasSuffix(err.Error(), "; and 20 more") {
		t.Errorf("err = %v", err)
	}
}

func TestNumbersAreExact(t *testing.T) {
	s := compile(t, `{"properties":{"n":{"type":"integer","maximum":9007199254740993}}}`)
	for doc, ok := range map[string]bool{
		`{"n":9007199254740993}`: true, `{"n":9007199254740994}`: false, `{"n":-1e400}`: true, `{"n":1e400}`: false, `{"n":1.0}`: true, `{"n":1.00000000000000000001}`: false,
	} {
		if err := s.Validate(doc); (err == nil) != ok {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

func TestCompileErrorsNameThePlace(t *testing.T) {
	cases := []struct {
		name, schema string
		want         []string
	}{
		{"not JSON", `{"type":`, []string{"not valid JSON", "byte 8"}},
		{"not a schema", `[]`, []string{"must be an object or a boolean, is an array"}},
		{"a number", `5`, []string{"must be an object or a boolean, is a number"}},
		{"bad type", `{"properties":{"a":{"type":"text"}}}`, []string{`"/properties/a/type"`, "string"}},
		{"lookahead", `{"properties":{"a":{"pattern":"(?!x)"}}}`, []string{"/properties/a/pattern", "(?!x)", "lookaround"}},
		{"lookahead in patternProperties", `{"patternProperties":{"(?=x)":{}}}`, []string{"(?=x)"}},
		{"file", `{"$ref":"file:///etc/passwd"}`, []string{"file:///etc/passwd", "outside the schema", "$defs"}},
		{"http", `{"properties":{"a":{"$ref":"https://example.com/x.json#/y"}}}`, []string{"https://example.com/x.json", "outside the schema"}},
		{"relative", `{"$ref":"other.json"}`, []string{`"other.json"`, "outside the schema"}},
		{"dialect", `{"$schema":"https://example.com/dialect"}`, []string{"https://example.com/dialect", "outside the schema"}},
		{"missing definition", `{"$ref":"#/$defs/x"}`, []string{"/$defs/x"}},
		{"missing anchor", `{"$ref":"#x"}`, []string{"x", "not found"}},
		{"only itself", `{"$ref":"#"}`, []string{"refers to itself"}},
		{"in a circle", `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/b"}]},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, []string{"refers to itself"}},
		{"absurd number", `{"minimum":1e999999999}`, []string{"exponent"}},
		{"key twice", `{"type":"object","type":"array"}`, []string{`"type" comes twice`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := schema.Compile(c.schema)
			if errs.Reason(err) != commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST {
				t.Fatalf("Compile = %v, want INVALID_REQUEST", err)
			}
			for _, want := range append(c.want, "the JSON Schema cannot be used") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "pawl-schema") {
				t.Errorf("%q tells of an inner address", err)
			}
		})
	}
}

// A bad regex fails that schema only; schemas that were compiled before and after work.
func TestSchemasAreIndependent(t *testing.T) {
	for range 3 {
		if _, err := schema.Compile(`{"pattern":"(?<!a)b"}`); err == nil {
			t.Error("a lookbehind was accepted")
		}
		if err := compile(t, `{"pattern":"^b$"}`).Validate(`"b"`); err != nil {
			t.Error(err)
		}
	}
	// The same $id in two schemas does not mix them up.
	a := compile(t, `{"$id":"https://example.com/s","type":"string"}`)
	b := compile(t, `{"$id":"https://example.com/s","type":"number"}`)
	if a.Validate(`"x"`) != nil || b.Validate(`1`) != nil || a.Validate(`1`) == nil {
		t.Error("two schemas of one $id are mixed up")
	}
}

func TestDraftsAndSelfReference(t *testing.T) {
	tree := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`)
	if err := tree.Validate(`{"kids":[{"kids":[{}]}]}`); err != nil {
		t.Error(err)
	}
	if err := tree.Validate(`{"kids":[{"kids":[{"x":1}]}]}`); err == nil || err.Error() != `"/kids/0/kids/0": has unknown property "x"` {
		t.Errorf("err = %v", err)
	}
	dynamic := compile(t, `{"$id":"https://example.com/strict","$dynamicAnchor":"node","$ref":"tree","unevaluatedProperties":false,
		"$defs":{"tree":{"$id":"tree","$dynamicAnchor":"node","properties":{"kids":{"items":{"$dynamicRef":"#node"}}}}}}`)
	if err := dynamic.Validate(`{"kids":[{"kids":[{}]}]}`); err != nil {
		t.Error(err)
	}
	if err := dynamic.Validate(`{"kids":[{"kids":[{"x":1}]}]}`); err == nil {
		t.Error("a dynamic reference was not followed")
	}
}

func TestProperties(t *testing.T) {
	s := compile(t, `{
		"type": "object",
		"required": ["path", "mode"],
		"properties": {
			"path": {"type": "string", "description": "Where \"it\" is."},
			"limit": {"type": "integer", "default": 9007199254740993},
			"mode": {"enum": ["r", "w"]},
			"when": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null},
			"kind": {"$ref": "#/$defs/Kind", "description": "beside"},
			"old": {"allOf": [{"$ref": "#/$defs/Kind"}]},
			"many": {"type": ["array", "string"]},
			"one": {"const": 1},
			"free": {},
			"any": true
		},
		"$defs": {"Kind": {"type": "string", "enum": ["a", "b"], "description": "there", "default": "a"}}
	}`)
	want := []schema.Property{
		{Name: "path", Type: "string", Description: `Where "it" is.`, Required: true, Schema: `{"type": "string", "description": "Where \"it\" is."}`},
		{Name: "limit", Type: "integer", Default: "9007199254740993", Schema: `{"type": "integer", "default": 9007199254740993}`},
		{Name: "mode", Type: "string", Required: true, Enum: `["r", "w"]`, Schema: `{"enum": ["r", "w"]}`},
		{Name: "when", Type: "string|null", Default: "null", Schema: `{"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}`},
		{Name: "kind", Type: "string", Description: "beside", Default: `"a"`, Enum: `["a", "b"]`, Schema: `{"$ref": "#/$defs/Kind", "description": "beside"}`},
		{Name: "old", Type: "string", Schema: `{"allOf": [{"$ref": "#/$defs/Kind"}]}`},
		{Name: "many", Type: "array|string", Schema: `{"type": ["array", "string"]}`},
		{Name: "one", Type: "number", Schema: `{"const": 1}`},
		{Name: "free", Schema: `{}`},
		{Name: "any", Schema: `true`},
	}
	if diff := cmp.Diff(want, s.Properties()); diff != "" {
		t.Errorf("Properties (-want +got):\n%s", diff)
	}
	top := compile(t, `{"$ref":"#/definitions/X","definitions":{"X":{"properties":{"a":{"type":"string"}},"required":["a"]}}}`)
	if diff := cmp.Diff([]schema.Property{{Name: "a", Type: "string", Required: true, Schema: `{"type":"string"}`}}, top.Properties()); diff != "" {
		t.Errorf("of a reference (-want +got):\n%s", diff)
	}
}

// Types are found in the time that it takes to read the schema, however often its parts refer to each other.
func TestPropertiesOfBranchedSchema(t *testing.T) {
	raw := `{"properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`
	for i := range 8 {
		raw += fmt.Sprintf(`"d%d":{"anyOf":[%s{}]},`, i, strings.Repeat(fmt.Sprintf(`{"$ref":"#/$defs/d%d"},`, i+1), 50))
	}
	s := compile(t, raw+`"d8":{"type":"string"}}}`)
	if p := s.Properties(); len(p) != 1 || p[0].Type != "string" {
		t.Errorf("Properties = %v", p)
	}
}

func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				s, err := schema.Compile(fmt.Sprintf(`{"maximum":%d}`, i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Validate(fmt.Sprint(i + g%2)); (err == nil) != (g%2 == 0) {
					t.Errorf("%d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkValidate(b *testing.B) {
	s := compile(b, `{"type":"object","properties":{"path":{"type":"string","minLength":1},"limit":{"type":"integer","minimum":1}},"required":["path"],"additionalProperties":false}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(`{"path":"docs/readme.md","limit":10}`); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompileCached(b *testing.B) {
	const raw = `{"type":"object","properties":{"path":{"type":"string","minLength":1}},"required":["path"],"additionalProperties":false}`
	b.ReportAllocs()
	for b.Loop() {
		compile(b, raw)
	}
}
