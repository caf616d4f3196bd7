package wire

import (
	"fmt"

	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/llm"
)

// Parameters returns the schema of that name and its properties as providers take it: an object at the top without alternatives there.
// The caller checks arguments against the original schema.
func Parameters(name, schema string) (o, properties *strictjson.Object, err error) {
	if o, err = strictjson.ParseObject(schema); err != nil {
		return nil, nil, &llm.Error{Class: llm.BadRequest, Message: fmt.Sprintf("the schema of %q is no JSON object: %v", name, err), Err: err}
	}
	o.Set("type", `"object"`)
	text, _ := o.Get("properties")
	if properties, err = strictjson.ParseObject(text); err != nil {
		properties = &strictjson.Object{}
	}
	o.Set("properties", properties.String())
	for _, key := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		o.Delete(key)
	}
	return o, properties, nil
}
