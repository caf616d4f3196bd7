package schema

import (
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"pawl.dev/services/strictjson"
)

// fits reports whether a value of valid JSON certainly fits, from its text alone, without building a tree. It knows the keywords that most
// schemas of tools use, and most inputs fit. Everything that it does not accept goes to the validator, which decides and describes the
// problems.
func (p *plan) fits(s *jsonschema.Schema, value string) bool {
	if s == nil {
		return true
	}
	part := p.parts[s]
	if !part.plain || s.Bool != nil {
		return part.plain && *s.Bool
	}
	kind := strictjson.Kind(value)
	if !part.admits(kind) || s.Enum != nil && kind != "string" {
		return false
	}
	switch kind {
	case "string":
		return fitsText(s, strictjson.Content(value))
	case "number":
		return part.fitsNumber(value)
	case "array":
		return p.fitsItems(s, value)
	case "object":
		return p.fitsMembers(s, value)
	}
	return true
}

func fitsText(s *jsonschema.Schema, text string) bool {
	if s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, func(v any) bool { return v.(string) == text }) {
		return false
	}
	return s.MinLength == nil && s.MaxLength == nil || within(utf8.RuneCountInString(text), s.MinLength, s.MaxLength)
}

func (p *part) fitsNumber(number string) bool {
	if strings.ContainsAny(number, ".eE") && len(p.kinds) > 0 && !slices.Contains(p.kinds, "number") {
		return false // the validator decides whether it is an integer
	}
	least, most := p.schema.Minimum, p.schema.Maximum
	if least == nil && most == nil {
		return true
	}
	n, err := strconv.ParseInt(strictjson.Content(number), 10, 64)
	return err == nil && (least == nil || n >= least.Num().Int64()) && (most == nil || n <= most.Num().Int64())
}

func (p *plan) fitsItems(s *jsonschema.Schema, array string) bool {
	items := s.Items2020
	if before2020, ok := s.Items.(*jsonschema.Schema); ok {
		items = before2020
	}
	n := 0
	for item := range strictjson.Items(array) {
		if n++; !p.fits(items, item) {
			return false
		}
	}
	return within(n, s.MinItems, s.MaxItems)
}

func (p *plan) fitsMembers(s *jsonschema.Schema, object string) bool {
	n, found := 0, 0
	for name, value := range strictjson.Members(object) {
		n++
		if slices.Contains(s.Required, name) {
			found++
		}
		property, named := s.Properties[name]
		if !named {
			switch others := s.AdditionalProperties.(type) {
			case bool:
				if !others {
					return false
				}
			case *jsonschema.Schema:
				property = others
			}
		}
		if !p.fits(property, value) {
			return false
		}
	}
	return found == len(s.Required) && within(n, s.MinProperties, s.MaxProperties)
}

func within(n int, least, most *int) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}

// isPlain reports whether fits looks at every keyword of a schema. Keywords that a later version of the validator adds are unknown.
func isPlain(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for f := range v.Type().Fields() {
		switch f.Name {
		case "Bool", "Types", "Enum", "MinLength", "MaxLength", "MinItems", "MaxItems", "MinProperties", "MaxProperties", "Minimum", "Maximum",
			"Items", "Items2020", "Properties", "AdditionalProperties", "Required": // looked at
		case "DraftVersion", "Location", "ID", "Anchor": // names
		case "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated": // notes
		default:
			if f.IsExported() && !v.FieldByIndex(f.Index).IsZero() {
				return false
			}
		}
	}
	if s.Enum != nil && slices.ContainsFunc(s.Enum.Values, func(v any) bool { _, text := v.(string); return !text }) {
		return false
	}
	const mostRequired = 64 // each is looked for among them
	_, tuple := s.Items.([]*jsonschema.Schema)
	return !tuple && len(s.Required) <= mostRequired && isInt64(s.Minimum) && isInt64(s.Maximum)
}

func isInt64(bound *big.Rat) bool { return bound == nil || bound.IsInt() && bound.Num().IsInt64() }
