package rest

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"pawl.dev/services/similar"
)

// maxValues bounds the values of an enum that an error lists.
const maxValues = 16

// field finds a field by its JSON name or its proto name; nil if none.
func field(md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}

// unknownField returns the message for an unknown field, with a similar field if any.
func unknownField(name string, md protoreflect.MessageDescriptor) string {
	names := make([]string, md.Fields().Len())
	for i := range names {
		names[i] = md.Fields().Get(i).JSONName()
	}
	return unknownName("field", name, names)
}

// unknownName returns the message for an unknown name, with the nearest known name, or with all known names if they are few.
func unknownName(kind, name string, names []string) string {
	if near := nearest(name, names); near != "" {
		return fmt.Sprintf("unknown %s %q; did you mean %q?", kind, name, near)
	}
	if len(names) == 0 {
		return fmt.Sprintf("unknown %s %q; none is allowed here", kind, name)
	}
	if len(names) > maxValues {
		return fmt.Sprintf("unknown %s %q", kind, name)
	}
	return fmt.Sprintf("unknown %s %q; use one of: %s", kind, name, strings.Join(names, ", "))
}

// unknownValue returns the message for an unknown value of an enum. A value without its prefix counts as near.
func unknownValue(value string, ed protoreflect.EnumDescriptor) string {
	names := make([]string, ed.Values().Len())
	for i := range names {
		names[i] = string(ed.Values().Get(i).Name())
	}
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, "_"+strings.ToUpper(value)) }); i >= 0 {
		return fmt.Sprintf("unknown value %q; did you mean %q?", value, names[i])
	}
	return unknownName("value", value, names)
}

// nearest returns the most similar of names, or "" if none is similar. A similar name differs in at most a third of the letters plus one.
func nearest(name string, names []string) string {
	const maxLen = 100 // names of fields are short
	if len(name) > maxLen {
		return ""
	}
	best, bestDistance := "", len(name)/3+2
	for _, candidate := range names {
		if longer := len(candidate) - len(name); max(longer, -longer) >= bestDistance {
			continue // the distance is at least that
		}
		if d := similar.Distance(strings.ToLower(name), strings.ToLower(candidate)); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}
