package llm

import "testing"

func TestStrictSchema(t *testing.T) {
	for _, tt := range []struct{ schema, want string }{
		{`{"type":"object","properties":{},"required":[],"additionalProperties":false}`, `{"type":"object","properties":{},"required":[],"additionalProperties":false}`},
		{`{"type":"object","properties":{"a":{"type":"string","minLength":1,"pattern":"x"}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string","pattern":"x"}},"required":["a"],"additionalProperties":false}`},
		{`{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]},"uniqueItems":true}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"number","default":1}}}`,
			`{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/b"}]}}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":"number"}}}`},
		{`{"type":"object","properties":{"a":{"type":"string","x-hint":"b"}},"required":["a"],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`},
		// outside of the subset
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":[],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, ""},
		{`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{"a":true},"required":["a"],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{"a":{"type":"object"}},"required":["a"],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{"a":{"allOf":[{"type":"string"}]}},"required":["a"],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{"a":{"type":["object","null"],"properties":{"b":{"type":"string"}}}},"required":["a"],"additionalProperties":false}`, ""},
		{`{"type":"object","properties":{},"patternProperties":{"x":{}},"additionalProperties":false}`, ""},
		{`{"type":"array","items":[{"type":"string"}]}`, ""},
		{`{"type":"object","properties":{"a":{"type":"array"}},"required":["a"],"additionalProperties":false}`, ""},
		{`[]`, ""}, {``, ""}, {`{`, ""},
	} {
		if got, ok := rewrite(tt.schema, 0, makeStrict); ok != (tt.want != "") || ok && got != tt.want {
			t.Errorf("%s:\n%s, %v\nwant %s", tt.schema, got, ok, tt.want)
		}
	}
}

func TestAddItems(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":{"type":"array"}},"type":{"type":"string"}}}`: `{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"array","items":{"type":"array","items":{}}},"type":{"type":"string"}}}`,
		`{"anyOf":[{"type":"array"},{"type":"null"}]}`: `{"anyOf":[{"type":"array","items":{}},{"type":"null"}]}`,
	} {
		if got, _ := rewrite(schema, 0, addItems); got != want {
			t.Errorf("%s", got)
		}
	}
}
