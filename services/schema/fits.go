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

// fits reports whether a value of valid JSON certainly fits. It reads only the text and builds no tree. It knows the keywords that most
// tool schemas use. If it returns false, the validator decides, and describes the problems.
func (g *graph) fits(s *jsonschema.Schema, value string) bool {
	if s == nil {
		return true
	}
	part := g.parts[s]
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
		return g.fitsItems(s, value)
	case "object":
		return g.fitsMembers(s, value)
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
	lower, upper := p.schema.Minimum, p.schema.Maximum
	if lower == nil && upper == nil {
		return true
	}
	n, err := strconv.ParseInt(strictjson.Content(number), 10, 64)
	return err == nil && (lower == nil || n >= lower.Num().Int64()) && (upper == nil || n <= upper.Num().Int64())
}

func (g *graph) fitsItems(s *jsonschema.Schema, array string) bool {
	items := s.Items2020
	if before2020, ok := s.Items.(*jsonschema.Schema); ok {
		items = before2020
	}
	n := 0
	for item := range strictjson.Items(array) {
		if n++; !g.fits(items, item) {
			return false
		}
	}
	return within(n, s.MinItems, s.MaxItems)
}

func (g *graph) fitsMembers(s *jsonschema.Schema, object string) bool {
	n, required := 0, 0
	for name, value := range strictjson.Members(object) {
		n++
		if slices.Contains(s.Required, name) {
			required++
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
		if !g.fits(property, value) {
			return false
		}
	}
	return required == len(s.Required) && within(n, s.MinProperties, s.MaxProperties)
}

func within(n int, lower, upper *int) bool {
	return (lower == nil || n >= *lower) && (upper == nil || n <= *upper)
}

// isPlain reports whether fits checks every keyword that a schema uses.
func isPlain(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for f := range v.Type().Fields() {
		switch f.Name {
		case "Bool", "Types", "Enum", "MinLength", "MaxLength", "MinItems", "MaxItems", "MinProperties", "MaxProperties", "Minimum", "Maximum",
			"Items", "Items2020", "Properties", "AdditionalProperties", "Required": // checked
		case "DraftVersion", "Location", "ID", "Anchor": // identifiers
		case "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated": // annotations
		default:
			if f.IsExported() && !v.FieldByIndex(f.Index).IsZero() {
				return false
			}
		}
	}
	if s.Enum != nil && slices.ContainsFunc(s.Enum.Values, func(v any) bool { _, text := v.(string); return !text }) {
		return false
	}
	const maxRequired = 64 // fitsMembers searches the list for each member
	_, tuple := s.Items.([]*jsonschema.Schema)
	return !tuple && len(s.Required) <= maxRequired && isInt64(s.Minimum) && isInt64(s.Maximum)
}

func isInt64(bound *big.Rat) bool { return bound == nil || bound.IsInt() && bound.Num().IsInt64() }
