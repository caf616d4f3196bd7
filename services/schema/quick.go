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

// quick accepts documents that certainly fit, from their text alone, without building a tree. It knows the keywords that most schemas of
// tools use, and most inputs fit. Everything that it does not accept goes to the validator, which decides and words the errors.
type quick struct {
	types                                    kinds // 0: all
	enum                                     []string
	minLength, maxLength                     *int
	minItems, maxItems, minFields, maxFields *int
	least, most                              *int64
	items                                    *quick // nil: anything
	fields                                   map[string]quickField
	required                                 uint64 // the bits of fields that have to be there
	others                                   quickField
}

// quickField is a property, or all that are not named.
type quickField struct {
	schema *quick // nil: anything
	refuse bool
	bit    uint64 // of a required property
}

// kinds is a set of JSON types.
type kinds uint8

const (
	nullKind kinds = 1 << iota
	booleanKind
	numberKind
	integerKind
	stringKind
	arrayKind
	objectKind
)

func kindNamed(name string) kinds {
	switch name {
	case "null":
		return nullKind
	case "boolean":
		return booleanKind
	case "number":
		return numberKind
	case "integer":
		return integerKind
	case "string":
		return stringKind
	case "array":
		return arrayKind
	case "object":
		return objectKind
	}
	return 0
}

// newQuick returns nil if the schema uses more than quick knows.
func newQuick(s *jsonschema.Schema) *quick {
	if s.Bool != nil || !onlyKnown(s) {
		return nil
	}
	q := &quick{
		minLength: s.MinLength, maxLength: s.MaxLength, minItems: s.MinItems, maxItems: s.MaxItems,
		minFields: s.MinProperties, maxFields: s.MaxProperties,
	}
	if s.Types != nil {
		for _, name := range s.Types.ToStrings() {
			q.types |= kindNamed(name)
		}
	}
	if s.Enum != nil {
		for _, v := range s.Enum.Values {
			text, ok := v.(string)
			if !ok {
				return nil
			}
			q.enum = append(q.enum, text)
		}
	}
	if !q.addBounds(s) || !q.addItems(s) || !q.addFields(s) {
		return nil
	}
	return q
}

func (q *quick) addBounds(s *jsonschema.Schema) bool {
	for _, b := range []struct {
		from *big.Rat
		to   **int64
	}{{s.Minimum, &q.least}, {s.Maximum, &q.most}} {
		if b.from == nil {
			continue
		}
		if !b.from.IsInt() || !b.from.Num().IsInt64() {
			return false
		}
		n := b.from.Num().Int64()
		*b.to = &n
	}
	return true
}

func (q *quick) addItems(s *jsonschema.Schema) (ok bool) {
	items := s.Items2020
	switch before2020 := s.Items.(type) {
	case nil:
	case *jsonschema.Schema:
		items = before2020
	default:
		return false
	}
	if items == nil {
		return true
	}
	q.items, ok = inner(items)
	return ok
}

// inner is newQuick for a subschema; nil if it accepts everything.
func inner(s *jsonschema.Schema) (q *quick, ok bool) {
	if s.Bool != nil {
		return nil, *s.Bool
	}
	q = newQuick(s)
	return q, q != nil
}

func (q *quick) addFields(s *jsonschema.Schema) bool {
	ok := true
	switch others := s.AdditionalProperties.(type) {
	case nil:
	case bool:
		q.others.refuse = !others
	case *jsonschema.Schema:
		q.others.schema, ok = inner(others)
	default:
		return false
	}
	if !ok || len(s.Required) > 64 {
		return false
	}
	q.fields = make(map[string]quickField, len(s.Properties))
	for name, property := range s.Properties {
		f, ok := inner(property)
		if !ok {
			return false
		}
		q.fields[name] = quickField{schema: f}
	}
	for i, name := range s.Required {
		f, named := q.fields[name]
		if !named {
			f = q.others
		}
		f.bit |= 1 << i
		q.fields[name] = f
		q.required |= 1 << i
	}
	return true
}

// onlyKnown reports whether quick looks at every keyword of a schema. Keywords that a later version of the validator adds are unknown.
func onlyKnown(s *jsonschema.Schema) bool {
	v := reflect.ValueOf(s).Elem()
	for f := range v.Type().Fields() {
		switch f.Name {
		case "Types", "Enum", "MinLength", "MaxLength", "MinItems", "MaxItems", "MinProperties", "MaxProperties", "Minimum", "Maximum",
			"Items", "Items2020", "Properties", "AdditionalProperties", "Required": // looked at
		case "DraftVersion", "Location", "ID", "Anchor": // names
		case "Title", "Description", "Default", "Comment", "ReadOnly", "WriteOnly", "Examples", "Deprecated": // notes
		default:
			if f.IsExported() && !v.FieldByIndex(f.Index).IsZero() {
				return false
			}
		}
	}
	return true
}

// fits reports whether a value of valid JSON certainly fits.
func (q *quick) fits(value string) bool {
	if q == nil {
		return true
	}
	kind := kindNamed(strictjson.Kind(value))
	if q.types != 0 && q.types&kind == 0 && (kind != numberKind || q.types&integerKind == 0 || strings.ContainsAny(value, ".eE")) {
		return false
	}
	if q.enum != nil && kind != stringKind {
		return false
	}
	switch kind {
	case stringKind:
		return q.fitsText(strictjson.Content(value))
	case numberKind:
		return q.fitsNumber(value)
	case arrayKind:
		return q.fitsItems(value)
	case objectKind:
		return q.fitsFields(value)
	}
	return true
}

func (q *quick) fitsText(text string) bool {
	if q.enum != nil && !slices.Contains(q.enum, text) {
		return false
	}
	if q.minLength == nil && q.maxLength == nil {
		return true
	}
	return within(utf8.RuneCountInString(text), q.minLength, q.maxLength)
}

func (q *quick) fitsNumber(number string) bool {
	if q.least == nil && q.most == nil {
		return true
	}
	n, err := strconv.ParseInt(strictjson.Content(number), 10, 64)
	return err == nil && (q.least == nil || n >= *q.least) && (q.most == nil || n <= *q.most)
}

func (q *quick) fitsItems(array string) bool {
	n := 0
	for item := range strictjson.Items(array) {
		if n++; !q.items.fits(item) {
			return false
		}
	}
	return within(n, q.minItems, q.maxItems)
}

func (q *quick) fitsFields(object string) bool {
	n, found := 0, uint64(0)
	for name, value := range strictjson.Members(object) {
		n++
		f, named := q.fields[name]
		if !named {
			f = q.others
		}
		if f.refuse || !f.schema.fits(value) {
			return false
		}
		found |= f.bit
	}
	return found == q.required && within(n, q.minFields, q.maxFields)
}

func within(n int, least, most *int) bool {
	return (least == nil || n >= *least) && (most == nil || n <= *most)
}
