package openai

import (
	"encoding/json"
	"slices"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm/wire"
)

// Keywords of JSON Schema by what OpenAI's strict mode does with them.
var (
	strictKeywords = []string{
		"$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
		"format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
	}
	// droppedKeywords are rejected, and can be left out because the reply is checked against the original schema.
	droppedKeywords = []string{
		"$comment", "$id", "$schema", "contains", "default", "deprecated", "examples", "maxContains", "maxLength", "maxProperties", "minContains",
		"minLength", "minProperties", "readOnly", "uniqueItems", "writeOnly",
	}
)

// maxDepth bounds the nesting of a strict schema.
const maxDepth = 10

// schemaOf returns the schema of a tool or reply as the provider takes it, and whether it is in the strict subset if that is wanted.
func schemaOf(name, schema string, wantStrict bool) (json.RawMessage, bool, error) {
	o, _, err := wire.Parameters(name, schema)
	if err != nil {
		return nil, false, err
	}
	if wantStrict {
		if strict, ok := strictSchema(o.String(), 0); ok {
			return json.RawMessage(strict), true, nil
		}
	}
	return json.RawMessage(withItems(o.String())), false, nil
}

// withItems returns a schema in which all arrays have items: the provider rejects one without.
func withItems(raw string) string {
	o, err := strictjson.ParseObject(raw)
	if err != nil {
		return raw
	}
	for _, key := range o.Keys() {
		value, _ := o.Get(key)
		o.Set(key, eachSchema(key, value, withItems))
	}
	if kind, _ := o.Get("type"); kind == `"array"` && !o.Has("items") {
		o.Set("items", "{}")
	}
	return o.String()
}

// strictSchema returns a schema without the keywords that strict mode rejects, and false if it has no equivalent there: each object must
// require all of its properties and allow no others.
func strictSchema(raw string, depth int) (string, bool) {
	o, err := strictjson.ParseObject(raw)
	if err != nil || depth > maxDepth || len(o.Keys()) == 0 {
		return "", false
	}
	fits := closed(o)
	for _, key := range slices.Clone(o.Keys()) {
		value, _ := o.Get(key)
		switch {
		case slices.Contains(droppedKeywords, key):
			o.Delete(key)
		case !slices.Contains(strictKeywords, key):
			return "", false
		case key != "additionalProperties":
			o.Set(key, eachSchema(key, value, func(inner string) string {
				inner, ok := strictSchema(inner, depth+1)
				fits = fits && ok
				return inner
			}))
		}
	}
	return o.String(), fits
}

// closed reports whether an object schema requires all of its properties and allows no others; other schemas are closed.
func closed(o *strictjson.Object) bool {
	kind, _ := o.Get("type")
	props, has := o.Get("properties")
	if kind != `"object"` && !has {
		return kind != "" || o.Has("anyOf") || o.Has("$ref") || o.Has("enum") || o.Has("const")
	}
	more, _ := o.Get("additionalProperties")
	required, _ := o.Get("required")
	all, err := strictjson.ParseObject(props)
	if err != nil || more != "false" {
		return false
	}
	names := slices.Collect(strictjson.Items(required))
	return !slices.ContainsFunc(all.Keys(), func(name string) bool { return !slices.Contains(names, strictjson.Quote(name)) })
}

// eachSchema returns the value of a keyword in which the schemas are changed.
func eachSchema(key, value string, change func(string) string) string {
	switch key {
	case "properties", "patternProperties", "$defs", "definitions":
		o, err := strictjson.ParseObject(value)
		if err != nil {
			return value
		}
		for _, name := range o.Keys() {
			member, _ := o.Get(name)
			o.Set(name, change(member))
		}
		return o.String()
	case "anyOf", "oneOf", "allOf", "prefixItems":
		items := slices.Collect(strictjson.Items(value))
		for i, item := range items {
			items[i] = change(item)
		}
		return strictjson.Array(items)
	case "items", "additionalProperties", "not", "if", "then", "else":
		return change(value)
	}
	return value
}
