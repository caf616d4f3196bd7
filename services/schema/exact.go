package schema

import (
	"strconv"

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

// ParseObject applies the rule of fields that come in two forms, a Struct and exact JSON text: either is accepted, not
// both, and neither is "{}". It returns an object in which numbers are as they were written. Errors are INVALID_REQUEST.
func ParseObject(structInput *structpb.Struct, jsonText string) (strictjson.Document, error) {
	switch {
	case structInput != nil && jsonText != "":
		return strictjson.Document{}, invalid("the input is given twice, as an object and as JSON text; give one of them")
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
		return strictjson.Document{}, invalid("it is not valid JSON: %w", err)
	}
	if kind := strictjson.Kind(jsonText); kind != "object" {
		return strictjson.Document{}, invalid("it must be a JSON object, is %s", withArticle(kind))
	}
	return doc, nil
}

func invalid(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_REQUEST, format, args...)
}

// IntoStruct makes an empty Struct the twin of exact JSON text that clients read, and says whether the text is an object. Integers above
// 2^53 are rounded in it; a number that no double can hold becomes its text.
func IntoStruct(s *structpb.Struct, jsonText string) bool {
	if strictjson.Kind(jsonText) != "object" || strictjson.Check(jsonText, strictjson.Rules{}) != nil {
		return false
	}
	fill(s, jsonText)
	return true
}

func fill(s *structpb.Struct, object string) {
	s.Fields = map[string]*structpb.Value{}
	for key, value := range strictjson.Members(object) {
		s.Fields[key] = toValue(value)
	}
}

// Each type below holds a value and its kind in one allocation, because every value of every event has one.
type (
	structValue struct {
		structpb.Value
		kind structpb.Value_StructValue
		in   structpb.Struct
	}
	stringValue struct {
		structpb.Value
		kind structpb.Value_StringValue
	}
	numberValue struct {
		structpb.Value
		kind structpb.Value_NumberValue
	}
)

func toValue(value string) *structpb.Value {
	switch strictjson.Kind(value) {
	case "object":
		v := &structValue{}
		fill(&v.in, value)
		v.kind.StructValue, v.Kind = &v.in, &v.kind
		return &v.Value
	case "array":
		list := &structpb.ListValue{}
		for item := range strictjson.Items(value) {
			list.Values = append(list.Values, toValue(item))
		}
		return structpb.NewListValue(list)
	case "string":
		return toString(strictjson.Unquote(value))
	case "boolean":
		return structpb.NewBoolValue(value == "true")
	case "number":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return toString(value)
		}
		v := &numberValue{kind: structpb.Value_NumberValue{NumberValue: n}}
		v.Kind = &v.kind
		return &v.Value
	}
	return structpb.NewNullValue()
}

func toString(text string) *structpb.Value {
	v := &stringValue{kind: structpb.Value_StringValue{StringValue: text}}
	v.Kind = &v.kind
	return &v.Value
}
