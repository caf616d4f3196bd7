package llm

import (
	"encoding/json"
	"slices"

	"pawl.dev/services/strictjson"
)

// parameters returns the schema of a tool or reply as providers accept it: at the top level an object without alternatives, and with only the
// properties whose names accepts allows. The caller of the model checks arguments against the original schema.
func parameters(name, schema string, accepts func(property string) bool) (*strictjson.Object, error) {
	o, err := strictjson.ParseObject(schema)
	if err != nil {
		return nil, errorf(BadRequest, "the schema of %q is no JSON object: %v", name, err)
	}
	o.Set("type", `"object"`)
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		o.Delete(key)
	}
	props, required := properties(o)
	for _, key := range props.Keys() {
		if !accepts(key) {
			props.Delete(key)
			required = slices.DeleteFunc(required, func(n string) bool { return n == strictjson.Quote(key) })
			o.Set("required", strictjson.Array(required))
		}
	}
	o.Set("properties", props.String())
	return o, nil
}

// properties returns the properties of a schema, and the names of the required ones as JSON strings.
func properties(o *strictjson.Object) (all *strictjson.Object, required []string) {
	text, _ := o.Get("properties")
	all, err := strictjson.ParseObject(text)
	if err != nil {
		all = &strictjson.Object{}
	}
	text, _ = o.Get("required")
	return all, slices.Collect(strictjson.Items(text))
}

// openAISchema returns the schema of a tool or reply as OpenAI accepts it. With wantStrict, it returns an equivalent schema in the strict subset
// and true, if there is one.
func openAISchema(name, schema string, wantStrict bool) (raw json.RawMessage, strict bool, err error) {
	o, err := parameters(name, schema, func(string) bool { return true })
	if err != nil {
		return nil, false, err
	}
	text := o.String()
	if wantStrict {
		if text, strict = rewrite(text, 0, makeStrict); strict {
			return json.RawMessage(text), true, nil
		}
	}
	text, _ = rewrite(o.String(), 0, addItems)
	return json.RawMessage(text), false, nil
}

// rewrite applies change to a schema and all schemas within it, innermost first. It returns the new schema, and whether all of them are objects
// for which change returned true.
func rewrite(raw string, depth int, change func(o *strictjson.Object, depth int) bool) (string, bool) {
	o, err := strictjson.ParseObject(raw)
	if err != nil {
		return raw, false
	}
	all := true
	inner := func(value string) string {
		value, ok := rewrite(value, depth+1, change)
		all = all && ok
		return value
	}
	for _, key := range o.Keys() {
		value, _ := o.Get(key)
		switch key {
		case "properties", "patternProperties", "$defs", "definitions":
			if members, err := strictjson.ParseObject(value); err == nil {
				for _, name := range members.Keys() {
					member, _ := members.Get(name)
					members.Set(name, inner(member))
				}
				o.Set(key, members.String())
			}
		case "anyOf", "oneOf", "allOf", "prefixItems":
			items := slices.Collect(strictjson.Items(value))
			for i, item := range items {
				items[i] = inner(item)
			}
			o.Set(key, strictjson.Array(items))
		case "items", "not", "if", "then", "else":
			o.Set(key, inner(value))
		case "additionalProperties":
			if value != "true" && value != "false" {
				o.Set(key, inner(value))
			}
		}
	}
	all = change(o, depth) && all
	return o.String(), all
}

// addItems adds `items` to an array without them, which OpenAI rejects.
func addItems(o *strictjson.Object, _ int) bool {
	if kind, _ := o.Get("type"); kind == `"array"` && !o.Has("items") {
		o.Set("items", "{}")
	}
	return true
}

// strictKeywords are the keywords of OpenAI's strict mode.
var strictKeywords = []string{
	"$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "exclusiveMaximum", "exclusiveMinimum",
	"format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title", "type",
}

// maxDepth bounds the nesting of a strict schema.
const maxDepth = 10

// makeStrict removes the keywords that strict mode rejects; the reply is checked against the original schema. It returns false if strict mode has
// no equivalent of the schema: there an object must require all of its properties and allow no others.
func makeStrict(o *strictjson.Object, depth int) bool {
	if o.Has("patternProperties") || o.Has("prefixItems") || depth > maxDepth {
		return false
	}
	for _, key := range o.Keys() {
		if !slices.Contains(strictKeywords, key) {
			o.Delete(key)
		}
	}
	kind, _ := o.Get("type")
	switch {
	case kind == `"array"`:
		return o.Has("items")
	case kind != `"object"` && !o.Has("properties"):
		return kind != "" || o.Has("anyOf") || o.Has("$ref") || o.Has("enum") || o.Has("const")
	}
	more, _ := o.Get("additionalProperties")
	all, required := properties(o)
	return more == "false" && !slices.ContainsFunc(all.Keys(), func(name string) bool { return !slices.Contains(required, strictjson.Quote(name)) })
}
