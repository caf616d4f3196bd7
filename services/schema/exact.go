package schema

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/strictjson"
)

// ExactObject is ParseObject for callers that only need the text.
func ExactObject(structInput *structpb.Struct, jsonText string) (string, error) {
	doc, err := ParseObject(structInput, jsonText)
	return doc.String(), err
}

// ParseObject reads an object that a request gives either as a Struct or as exact JSON text. Both together are an error; if both are empty, the
// object is "{}". Numbers stay as they were written. Errors are INVALID_REQUEST.
func ParseObject(structInput *structpb.Struct, jsonText string) (strictjson.Document, error) {
	switch {
	case structInput != nil && jsonText != "":
		return strictjson.Document{}, invalid("the value is given twice, as an object and as JSON text; give one of them")
	case structInput != nil:
		b, err := protojson.Marshal(structInput)
		if err != nil {
			return strictjson.Document{}, invalid("the object cannot be written as JSON: %w", err)
		}
		jsonText = string(b)
	case jsonText == "":
		jsonText = "{}"
	}
	doc, err := strictjson.Parse(jsonText, strictjson.Rules{})
	if err != nil {
		return strictjson.Document{}, invalid("the text is not valid JSON: %w", err)
	}
	if kind := strictjson.Kind(jsonText); kind != "object" {
		return strictjson.Document{}, invalid("the text must be a JSON object, is %s", strictjson.WithArticle(kind))
	}
	return doc, nil
}

func invalid(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}
