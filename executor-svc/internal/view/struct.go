package view

import (
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"

	"pawl.dev/services/strictjson"
)

// maxStructBytes is the size of the largest JSON text that an event also carries as a Struct.
const maxStructBytes = 64 << 10

// toStruct returns the Struct for exact JSON; nil if the JSON is too large or not an object. Integers above 2^53 are rounded; a number that
// no double can hold becomes its text.
func toStruct(exact string) *structpb.Struct {
	if len(exact) > maxStructBytes || strictjson.Kind(exact) != "object" || strictjson.Check(exact, strictjson.Rules{}) != nil {
		return nil
	}
	s := &structpb.Struct{}
	fill(s, exact)
	return s
}

func fill(s *structpb.Struct, object string) {
	s.Fields = map[string]*structpb.Value{}
	for key, value := range strictjson.Members(object) {
		s.Fields[key] = toValue(value)
	}
}

// Each type below holds a value and its kind in one allocation, because events hold many values.
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
