package shim

import "encoding/json"

// form is the part of a JSON Schema that is needed to fill in the required properties.
type form struct {
	Properties map[string]struct {
		Type    any   `json:"type"`
		Enum    []any `json:"enum"`
		Default any   `json:"default"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// filled returns a JSON object for a schema. It has a value for each required property without a default.
func filled(schema string) (string, error) {
	var f form
	if err := json.Unmarshal([]byte(schema), &f); err != nil {
		return "", err
	}
	values := make(map[string]any)
	for _, name := range f.Required {
		switch p := f.Properties[name]; {
		case p.Default != nil:
		case len(p.Enum) > 0:
			values[name] = p.Enum[0]
		default:
			values[name] = sample(p.Type)
		}
	}
	object, err := json.Marshal(values)
	return string(object), err
}

func sample(kind any) any {
	switch kind {
	case "number", "integer":
		return 1
	case "boolean":
		return true
	case "object":
		return map[string]any{}
	case "array":
		return []any{}
	case "null":
		return nil
	}
	return "x"
}
