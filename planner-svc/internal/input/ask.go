package input

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// Offending returns the names of the properties that a person should look at: those that are required and missing, those that the schema refuses, and
// those whose name or value the error has; else all that are required, else all.
func Offending(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	found := t.Missing(in)
	for _, problem := range problems(t, in) {
		name, _, _ := strings.Cut(strings.TrimPrefix(problem.Pointer, "/"), "/")
		found = append(found, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	words := strings.FieldsFunc(strings.ToLower(failure), func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxLatin1 || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
	var named, required, all []string
	for _, p := range t.Props {
		raw, _ := in.Get(p.Name)
		value := strictjson.Content(raw)
		// Single letters name nothing.
		if slices.Contains(found, p.Name) || len(p.Name) > 1 && slices.Contains(words, strings.ToLower(p.Name)) || len(value) > 1 && strings.Contains(failure, value) {
			named = append(named, p.Name)
		}
		if all = append(all, p.Name); p.Required {
			required = append(required, p.Name)
		}
	}
	for _, names := range [][]string{named, required} {
		if len(names) > 0 {
			return names
		}
	}
	return all
}

// problems returns the violations of the tool's schema by an input.
func problems(t *catalog.Tool, in *strictjson.Object) []schema.Problem {
	var invalid *schema.Invalid
	if t.Schema == nil || !errors.As(t.Schema.Validate(in.String()), &invalid) {
		return nil
	}
	return invalid.Problems
}

// Form returns the JSON Schema of an object with the named properties of a tool, each nullable, with titles and descriptions kept, none required.
func Form(t *catalog.Tool, names []string) string {
	out, props, plain := &strictjson.Object{}, &strictjson.Object{}, &strictjson.Object{}
	for _, name := range names {
		if p := t.Prop(name); p != nil {
			props.Set(name, nullable(p.Schema))
			plain.Set(name, members(p.Schema, "title", "description").String())
		}
	}
	out.Set("type", `"object"`)
	out.Set("properties", props.String())
	out.Set("required", "[]")
	defs := members(t.GetInputSchemaJson(), "$defs", "definitions")
	for _, k := range defs.Keys() {
		if v, _ := defs.Get(k); strings.Contains(props.String(), "#/"+k+"/") {
			out.Set(k, v)
		}
	}
	if _, err := schema.Compile(out.String()); err != nil {
		out.Set("properties", plain.String()) // they refer to places that are not in the form
	}
	return out.String()
}

// members returns some members of a JSON object.
func members(raw string, keys ...string) *strictjson.Object {
	out := &strictjson.Object{}
	for _, k := range keys {
		if v, ok := strictjson.Member(raw, k); ok {
			out.Set(k, v)
		}
	}
	return out
}

// nullable makes a schema accept null too. What people read stays at the top.
func nullable(raw string) string {
	doc, err := strictjson.ParseObject(raw)
	if err != nil || len(doc.Keys()) == 0 { // true, {}: null is accepted already
		return "{}"
	}
	types, typed := doc.Get("type")
	if !typed || slices.ContainsFunc([]string{"$ref", "anyOf", "oneOf", "allOf", "not", "const", "if"}, doc.Has) {
		out := members(raw, "title", "description", "default")
		for _, k := range out.Keys() {
			doc.Delete(k)
		}
		out.Set("anyOf", strictjson.Array([]string{doc.String(), `{"type":"null"}`}))
		return out.String()
	}
	if strictjson.Kind(types) == "string" {
		types = strictjson.Array([]string{types})
	}
	doc.Set("type", with(types, `"null"`))
	if enum, ok := doc.Get("enum"); ok {
		doc.Set("enum", with(enum, "null"))
	}
	return doc.String()
}

// with adds an item to a JSON array unless it is there.
func with(array, item string) string {
	items := slices.Collect(strictjson.Items(array))
	if !slices.Contains(items, item) {
		items = append(items, item)
	}
	return strictjson.Array(items)
}
