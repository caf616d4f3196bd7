package wire

import (
	"encoding/json"
	"strings"

	"pawl.dev/services/strictjson"
)

// Parameters returns a tool's schema as providers take it: an object at the top without alternatives there. The caller checks arguments
// against the original schema.
func Parameters(schema string) (*strictjson.Object, error) {
	o, err := strictjson.ParseObject(schema)
	if err != nil {
		return nil, err
	}
	if t, _ := o.Get("type"); t != `"object"` {
		o.Set("type", `"object"`)
	}
	if !o.Has("properties") {
		o.Set("properties", "{}")
	}
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		o.Delete(key)
	}
	return o, nil
}

// Raw returns o as JSON to be embedded in a message.
func Raw(o *strictjson.Object) json.RawMessage { return json.RawMessage(o.String()) }

// Blank reports whether a text has nothing but space.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }
