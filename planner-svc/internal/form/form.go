// Package form makes forms for people of tools' input schemas, and shortens messages for them. It knows no planner.
package form

import (
	"slices"
	"strings"
	"unicode/utf8"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
)

// Of returns the JSON Schema of an object with the named properties of a tool's input: each nullable, none required (A16).
func Of(t *commonv1.Tool, names []string) string {
	compiled, err := schema.Compile(t.GetInputSchemaJson())
	props := &strictjson.Object{}
	for _, p := range compiledProperties(compiled, err) {
		if !slices.Contains(names, p.Name) {
			continue
		}
		props.Set(p.Name, nullable(p.Schema))
		if _, err := schema.Compile(object(t.GetInputSchemaJson(), props)); err != nil {
			props.Set(p.Name, wordsOf(p.Schema)) // it refers to a place that is not in the form
		}
	}
	return object(t.GetInputSchemaJson(), props)
}

func compiledProperties(s *schema.Schema, err error) []schema.Property {
	if err != nil {
		return nil
	}
	return s.Properties()
}

// wordsOf keeps the title and the description of a schema.
func wordsOf(raw string) string {
	out := &strictjson.Object{}
	if doc, err := strictjson.ParseObject(raw); err == nil {
		for _, k := range []string{"title", "description"} {
			if v, ok := doc.Get(k); ok {
				out.Set(k, v)
			}
		}
	}
	return out.String()
}

func object(source string, props *strictjson.Object) string {
	out := &strictjson.Object{}
	out.Set("type", `"object"`)
	out.Set("properties", props.String())
	out.Set("required", "[]")
	if doc, err := strictjson.ParseObject(source); err == nil {
		for _, defs := range []string{"$defs", "definitions"} {
			if v, ok := doc.Get(defs); ok && strings.Contains(props.String(), "#/"+defs+"/") {
				out.Set(defs, v)
			}
		}
	}
	return out.String()
}

// nullable makes a schema accept null too.
func nullable(raw string) string {
	doc, err := strictjson.ParseObject(raw)
	if err != nil || len(doc.Keys()) == 0 { // true, {}: null is accepted already
		return "{}"
	}
	t, typed := doc.Get("type")
	if !typed || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf", "not", "const", "if"}, doc.Has) {
		return nullableUnion(doc)
	}
	types := slices.Collect(strictjson.Items(t))
	if strictjson.Kind(t) == "string" {
		types = []string{t}
	}
	out := doc.Clone()
	out.Set("type", withNull(types, `"null"`))
	if enum, ok := doc.Get("enum"); ok {
		out.Set("enum", withNull(slices.Collect(strictjson.Items(enum)), "null"))
	}
	return out.String()
}

func withNull(items []string, null string) string {
	if !slices.Contains(items, null) {
		items = append(items, null)
	}
	return strictjson.Array(items)
}

// nullableUnion puts null beside a schema that is more than a type; what people read stays at the top.
func nullableUnion(doc *strictjson.Object) string {
	out, inner := &strictjson.Object{}, doc.Clone()
	for _, k := range []string{"title", "description", "default"} {
		if v, ok := doc.Get(k); ok {
			out.Set(k, v)
			inner.Delete(k)
		}
	}
	out.Set("anyOf", strictjson.Array([]string{inner.String(), `{"type":"null"}`}))
	return out.String()
}

// Shorten keeps a sentence within A16's limit: 50 words of a sensible length, in Chinese 50 characters.
func Shorten(l lang.Lang, s string) string {
	const most, mostCharacters = 50, 500
	s = strings.Join(strings.Fields(s), " ")
	if l == lang.ZH {
		if utf8.RuneCountInString(s) <= most {
			return s
		}
		return string([]rune(s)[:most-1]) + "…"
	}
	if words := strings.Fields(s); len(words) > most {
		s = strings.Join(words[:most], " ") + "…"
	}
	return lang.Clip(s, mostCharacters)
}
