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

func toValue(value string) *structpb.Value {
	switch strictjson.Kind(value) {
	case "object":
		in := &structpb.Struct{}
		fill(in, value)
		return structpb.NewStructValue(in)
	case "array":
		list := &structpb.ListValue{}
		for item := range strictjson.Items(value) {
			list.Values = append(list.Values, toValue(item))
		}
		return structpb.NewListValue(list)
	case "string":
		return structpb.NewStringValue(strictjson.Unquote(value))
	case "boolean":
		return structpb.NewBoolValue(value == "true")
	case "number":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return structpb.NewStringValue(value)
		}
		return structpb.NewNumberValue(n)
	}
	return structpb.NewNullValue()
}
