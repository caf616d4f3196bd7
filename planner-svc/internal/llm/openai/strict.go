package openai

import (
	"slices"

	"pawl.dev/services/strictjson"
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

// strictSchema returns a schema without the keywords that strict mode rejects, and false if it has no equivalent there: each object must
// require all of its properties and allow no others.
func strictSchema(raw string, depth int) (string, bool) {
	o, err := strictjson.ParseObject(raw)
	if err != nil || depth > maxDepth || len(o.Keys()) == 0 {
		return "", false
	}
	for _, key := range slices.Clone(o.Keys()) {
		value, _ := o.Get(key)
		switch {
		case slices.Contains(droppedKeywords, key):
			o.Delete(key)
			continue
		case !slices.Contains(strictKeywords, key):
			return "", false
		}
		ok := true
		switch key {
		case "properties", "$defs", "definitions":
			value, ok = strictMembers(value, depth)
		case "anyOf":
			value, ok = strictItems(value, depth)
		case "items":
			value, ok = strictSchema(value, depth+1)
		}
		if !ok {
			return "", false
		}
		o.Set(key, value)
	}
	return o.String(), closed(o)
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

func strictMembers(raw string, depth int) (string, bool) {
	o, err := strictjson.ParseObject(raw)
	if err != nil {
		return "", false
	}
	for _, key := range o.Keys() {
		value, _ := o.Get(key)
		value, ok := strictSchema(value, depth+1)
		if !ok {
			return "", false
		}
		o.Set(key, value)
	}
	return o.String(), true
}

func strictItems(raw string, depth int) (string, bool) {
	items := slices.Collect(strictjson.Items(raw))
	for i, item := range items {
		value, ok := strictSchema(item, depth+1)
		if !ok {
			return "", false
		}
		items[i] = value
	}
	return strictjson.Array(items), len(items) > 0
}
