package schema

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"pawl.dev/services/similar"
)

// hinted adds suggestions to problems with names. doc is the validated document.
func (s *Schema) hinted(found *Invalid, err *jsonschema.ValidationError, doc any) *Invalid {
	hints := map[Problem]string{}
	s.hint(hints, err, doc)
	for i, p := range found.Problems {
		found.Problems[i].Message += hints[p]
	}
	return found
}

func (s *Schema) hint(hints map[Problem]string, err *jsonschema.ValidationError, doc any) {
	at := pointer(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		known, _ := s.namesAt(err.InstanceLocation)
		names := slices.Clone(k.Properties)
		slices.Sort(names)
		var meant []string
		for _, name := range names {
			if near := similar.Names(name, known); len(near) > 0 {
				meant = append(meant, strconv.Quote(near[0]))
			}
		}
		if len(meant) > 0 {
			hints[Problem{at, describe(k)}] = ", did you mean " + strings.Join(meant, " and ") + "?"
		}
	case *kind.Required:
		known, closed := s.namesAt(err.InstanceLocation)
		if closed {
			break // unknown properties are reported anyway
		}
		unknown := slices.DeleteFunc(keysAt(doc, err.InstanceLocation), func(key string) bool { return slices.Contains(known, key) })
		for _, name := range k.Missing {
			if near := similar.Names(name, unknown); len(near) > 0 {
				hints[Problem{at, missing(name)}] = fmt.Sprintf("; %q is not known, did you mean %q?", near[0], name)
			}
		}
	}
	for _, cause := range err.Causes {
		s.hint(hints, cause, doc)
	}
}

// Missing reports whether a property is just absent, not given under a similar name.
func (p Problem) Missing() bool {
	return strings.HasPrefix(p.Message, "required property ") && strings.HasSuffix(p.Message, " is missing")
}

func missing(name string) string { return fmt.Sprintf("required property %q is missing", name) }

// offered leaves out what says nothing: an empty text is there for "none of these".
func offered(values []any) []any {
	left := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == "" })
	if len(left) == 0 {
		return values
	}
	return left
}

// namesAt returns the names of the properties that the schema knows at a place of a document, and whether it refuses others.
func (s *Schema) namesAt(location []string) (names []string, closed bool) {
	at := s.compiled
	for _, step := range location {
		if at = child(resolve(at), step); at == nil {
			return nil, false
		}
	}
	if at = resolve(at); at == nil {
		return nil, false
	}
	for name := range at.Properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, at.AdditionalProperties == false
}

// resolve follows references, as far as they lead to something of their own.
func resolve(s *jsonschema.Schema) *jsonschema.Schema {
	for range 16 {
		if s == nil || s.Ref == nil || len(s.Properties) > 0 {
			return s
		}
		s = s.Ref
	}
	return s
}

// child is the schema of a member or an item; nil where it is not one alone.
func child(s *jsonschema.Schema, step string) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if p := s.Properties[step]; p != nil {
		return p
	}
	if items, ok := s.Items.(*jsonschema.Schema); ok {
		return items
	}
	return s.Items2020
}

// keysAt returns the keys of the object at a place of a document.
func keysAt(doc any, location []string) []string {
	for _, step := range location {
		switch at := doc.(type) {
		case map[string]any:
			doc = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			doc = at[i]
		default:
			return nil
		}
	}
	object, _ := doc.(map[string]any)
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
