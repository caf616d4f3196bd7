package toolcall

import (
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/schema"
)

// CheckInput returns an input in its stored form, and how it violates the tool's schema; empty if it fits. If the schema cannot be read, only
// the pool checks the input. A missing input becomes `{}`, which the schema must accept; a schema that cannot be read does not.
func CheckInput(tool *commonv1.Tool, raw string) (input, problem string) {
	input = ValidUTF8(raw)
	compiled, err := schema.Compile(tool.GetInputSchemaJson())
	if raw == "" {
		input = "{}"
		if err == nil {
			err = compiled.Validate(input)
		}
		if err != nil {
			return input, "the planner gave no input for " + tool.GetId() + ", and an empty input does not fit: " + err.Error()
		}
		return input, ""
	}
	if err == nil {
		if err := compiled.Validate(input); err != nil {
			return input, err.Error()
		}
	}
	return input, ""
}
