package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"pawl.dev/services/schema"
)

// branched is a few lines that apply their innermost subschema 2^levels times.
func branched(levels int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, levels)
	return b.String()
}

// A hostile schema or document is refused in no time instead of being worked at for years.
func TestExponentialWorkIsRefused(t *testing.T) {
	const twice = `{"properties":{"a":{"$ref":"#"}},"allOf":[{"properties":{"a":{"$ref":"#"}}}],"not":{"properties":{"a":{"$ref":"#"}}},"additionalProperties":false}`
	nested := func(depth int) string { return strings.Repeat(`{"a":`, depth) + "{}" + strings.Repeat("}", depth) }
	pattern := `{"items":{"type":"integer"},"prefixItems":[` + strings.Repeat(`{"type":"integer"},`, 9) + `{"type":"integer"}]}`
	cases := []struct {
		name, schema, doc string
		refused           bool
	}{
		{"branched, little", branched(8), `"x"`, false},
		{"branched, much", branched(40), `"x"`, true},
		{"recursion, shallow", twice, nested(5), false},
		{"recursion, deep", twice, nested(100), true},
		{"many values", pattern, "[" + strings.Repeat("1,", 100_000) + "1]", false},
		{"too many values", pattern, "[" + strings.Repeat("1,", 1_100_000) + "1]", true},
		{"dynamic recursion", `{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}}}`, nested(100), false},
		{"a large enum for many", `{"items":{"enum":[` + strings.Repeat(`"x",`, 10_000) + `1]}}`, "[" + strings.Repeat("1,", 10_000) + "1]", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := compile(t, c.schema).Validate(c.doc)
			if refused := err != nil && strings.Contains(err.Error(), "checks; make it smaller"); refused != c.refused {
				t.Errorf("refused %v, want %v: %.200v", refused, c.refused, err)
			}
		})
	}
}

func TestSchemasAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"$defs":{`)
	for i := range 1000 {
		fmt.Fprintf(&b, `"a%d":{"$id":"https://example.com/%d","$dynamicAnchor":"x"},"b%d":{"items":{"$dynamicRef":"https://example.com/%d#x"}},`, i, i, i, i)
	}
	b.WriteString(`"last":{}},"properties":{`)
	for i := range 1000 {
		fmt.Fprintf(&b, `"p%d":{"$ref":"#/$defs/b%d"},`, i, i)
	}
	b.WriteString(`"last":{}}}`)
	for name, raw := range map[string]string{
		"text":       `{"description":"` + strings.Repeat("x", 1<<20) + `"}`,
		"references": b.String(),
	} {
		if _, err := schema.Compile(raw); err == nil || len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Real recursive schemas, whose alternatives overlap, stay usable.
func TestRecursiveSchemasStayUsable(t *testing.T) {
	filter := compile(t, `{"$ref":"#/$defs/f","$defs":{"f":{"anyOf":[
		{"type":"object","properties":{"and":{"type":"array","items":{"$ref":"#/$defs/f"}}},"required":["and"],"additionalProperties":false},
		{"type":"object","properties":{"or":{"type":"array","items":{"$ref":"#/$defs/f"}}},"required":["or"],"additionalProperties":false},
		{"type":"object","properties":{"not":{"$ref":"#/$defs/f"}},"required":["not"],"additionalProperties":false},
		{"type":"object","properties":{"field":{"type":"string"},"eq":{}},"required":["field","eq"],"additionalProperties":false}]}}}`)
	doc := `{"field":"a","eq":1}`
	for range 12 {
		doc = `{"and":[` + doc + `,{"or":[{"field":"b","eq":2},{"not":{"field":"c","eq":3}}]}]}`
	}
	if err := filter.Validate(doc); err != nil {
		t.Error(err)
	}
	if err := filter.Validate(strings.Replace(doc, `"field":"b"`, `"fild":"b"`, 1)); err == nil {
		t.Error("a misspelt member was accepted")
	}
}

func BenchmarkValidateRecursive(b *testing.B) {
	s, err := schema.Compile(`{"properties":{"kids":{"items":{"$ref":"#"}},"name":{"type":"string"}}}`)
	if err != nil {
		b.Fatal(err)
	}
	doc := `{"name":"x","kids":[{"name":"y"},{"name":"z","kids":[{"name":"w"}]}]}`
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(doc); err != nil {
			b.Fatal(err)
		}
	}
}
