package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"pawl.dev/services/errs"
	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// Field is one property of a schema for an object.
type Field struct {
	Name        string
	Types       []string // JSON types without null; empty: any
	Description string
	Enum        []titledValue // without null; empty: any value
	Many        bool          // the value is an array of Enum's values
	Required    bool
	Schema      string          // the property's schema
	Default     json.RawMessage // nil if there is none
}

// Fields returns the properties of an object's schema, in the schema's order.
func Fields(schemaJSON string) ([]Field, error) {
	s, err := schema.Compile(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("read the schema of the requested values: %w", err)
	}
	var fields []Field
	for _, p := range s.Properties() {
		f := Field{Name: p.Name, Description: p.Description, Required: p.Required, Schema: p.Schema}
		if p.Default != "" && p.Default != "null" {
			f.Default = json.RawMessage(p.Default)
		}
		for t := range strings.SplitSeq(p.Type, "|") {
			if t != "" && t != "null" {
				f.Types = append(f.Types, t)
			}
		}
		f.setEnum(p)
		fields = append(fields, f)
	}
	return fields, nil
}

// ObjectOfPairs builds a JSON object from NAME=VALUE pairs. It parses the values by the schema, or as JSON if rawJSON is set. If strict is set
// and the schema has properties, each name must be one of them.
func ObjectOfPairs(schemaJSON string, pairs []string, rawJSON, strict bool) (string, error) {
	fields, err := Fields(schemaJSON)
	if err != nil {
		return "", err
	}
	object := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return "", fmt.Errorf("%q is not NAME=VALUE", pair)
		}
		if _, twice := object[name]; twice {
			return "", fmt.Errorf("%s is given twice", name)
		}
		field, err := find(fields, name, strict)
		if err != nil {
			return "", err
		}
		if rawJSON {
			field = Field{Name: name, Types: []string{"json"}}
		}
		if object[name], err = field.Parse(text); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return strictjson.Marshal(object)
}

func find(fields []Field, name string, strict bool) (Field, error) {
	var names []string
	for _, f := range fields {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	if strict && len(fields) > 0 {
		return Field{}, fmt.Errorf("%s is not asked for; the names are: %s", name, strings.Join(names, ", "))
	}
	return Field{Name: name}, nil
}

// titledValue is a value that a schema lists, with its title.
type titledValue struct {
	Const json.RawMessage `json:"const"`
	Title string          `json:"title"`
}

// valueLists are the parts of a schema that can list its values, in the forms of JSON Schema and of MCP's elicitation.
type valueLists struct {
	Enum      []json.RawMessage `json:"enum"`
	EnumNames []string          `json:"enumNames"` // titles, beside Enum
	OneOf     []titledValue     `json:"oneOf"`
	AnyOf     []titledValue     `json:"anyOf"`
}

// values returns the listed values with their titles, or none if the schema also allows other values.
func (l valueLists) values() []titledValue {
	if len(l.Enum) > 0 {
		list := make([]titledValue, len(l.Enum))
		for i, value := range l.Enum {
			list[i].Const = value
			if len(l.EnumNames) == len(l.Enum) {
				list[i].Title = l.EnumNames[i]
			}
		}
		return list
	}
	list := l.OneOf
	if len(list) == 0 {
		list = l.AnyOf
	}
	if slices.ContainsFunc(list, func(v titledValue) bool { return v.Const == nil }) {
		return nil
	}
	return list
}

// setEnum sets Enum and Many from the values that the property's schema lists, for the property itself or for its array's items.
func (f *Field) setEnum(p schema.Property) {
	var own valueLists
	var arraySchema struct {
		Items valueLists `json:"items"`
	}
	_ = json.Unmarshal([]byte(p.Schema), &own) // a schema of another form lists no values
	list := own.values()
	if len(list) == 0 && slices.Equal(f.Types, []string{"array"}) {
		_ = json.Unmarshal([]byte(p.Schema), &arraySchema)
		list = arraySchema.Items.values()
		f.Many = len(list) > 0
	}
	if len(list) == 0 {
		var members []json.RawMessage
		_ = json.Unmarshal([]byte(p.Enum), &members) // an array or empty, because the schema has been compiled
		list = valueLists{Enum: members}.values()
	}
	f.Enum = slices.DeleteFunc(list, func(v titledValue) bool { return string(v.Const) == "null" })
}

// IsText reports whether the field takes any string, and only strings.
func (f Field) IsText() bool { return len(f.Enum) == 0 && len(f.Types) == 1 && f.Types[0] == "string" }

// Kind describes the values that the field takes.
func (f Field) Kind() string {
	if len(f.Enum) == 0 {
		return strings.Join(f.Types, " or ")
	}
	words := make([]string, len(f.Enum))
	for i, e := range f.Enum {
		words[i] = strictjson.Content(string(e.Const))
		if e.Title != "" && e.Title != words[i] {
			words[i] += " = " + e.Title
		}
	}
	text := strings.Join(words, " | ")
	if f.Many {
		text += "; several with commas"
	}
	return text
}

// member returns the enum value that text names, by the value itself or else by its title.
func (f Field) member(text string) (json.RawMessage, error) {
	for _, e := range f.Enum {
		if text == strictjson.Content(string(e.Const)) || text == string(e.Const) {
			return e.Const, nil
		}
	}
	for _, e := range f.Enum {
		if e.Title != "" && strings.EqualFold(text, e.Title) {
			return e.Const, nil
		}
	}
	return nil, fmt.Errorf("%q is none of %s", text, f.Kind())
}

// members parses an array of enum values: as JSON, or separated by commas.
func (f Field) members(text string) (json.RawMessage, error) {
	if value, ok := parseJSON(strings.TrimSpace(text), '['); ok {
		return value, nil
	}
	list := []json.RawMessage{}
	if value, err := f.member(text); err == nil {
		return array(value) // a title may have a comma
	}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		value, err := f.member(word)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return array(list...)
}

// array returns a JSON array of the values.
func array(values ...json.RawMessage) (json.RawMessage, error) {
	raw, err := strictjson.Marshal(append([]json.RawMessage{}, values...))
	return json.RawMessage(raw), err
}

// Check validates a value by the property's schema. It accepts every value if the schema refers to other schemas.
func (f Field) Check(value json.RawMessage) error {
	if f.Schema == "" {
		return nil
	}
	s, err := schema.Compile(f.Schema)
	if err != nil {
		return nil //nolint:nilerr // the whole answer is checked later
	}
	var invalid *schema.Invalid
	if errors.As(s.Validate(string(value)), &invalid) {
		return invalid
	}
	return nil
}

// Parse turns text into a value of the field. The error says which values are valid.
func (f Field) Parse(text string) (json.RawMessage, error) {
	types := f.Types
	switch {
	case f.Many:
		return f.members(text)
	case len(f.Enum) > 0:
		return f.member(text)
	case len(types) == 0: // JSON if the text is JSON, else a string
		types = []string{"json", "string"}
	}
	for _, t := range types {
		if value, ok := parseAs(t, text); ok {
			return value, nil
		}
	}
	if slices.Contains(types, "string") {
		return json.RawMessage(strictjson.Quote(text)), nil
	}
	return nil, typeError(types)
}

// parseAs parses text as a value of a JSON type, or as any JSON if kind is "json".
func parseAs(kind, text string) (json.RawMessage, bool) {
	text = strings.TrimSpace(text)
	switch kind {
	case "integer":
		return json.RawMessage(text), integer.MatchString(text)
	case "number":
		return json.RawMessage(text), json.Valid([]byte(text)) && strings.ContainsAny(text[:1], "-0123456789")
	case "boolean":
		return boolean(text)
	case "array":
		return parseJSON(text, '[')
	case "object":
		return parseJSON(text, '{')
	case "json":
		return parseJSON(text, 0)
	}
	return nil, false
}

var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func boolean(text string) (json.RawMessage, bool) {
	switch strings.ToLower(text) {
	case "true", "yes", "y":
		return json.RawMessage("true"), true
	case "false", "no", "n":
		return json.RawMessage("false"), true
	}
	return nil, false
}

// parseJSON returns text as compact JSON, and whether it is JSON that begins with first (0: any).
func parseJSON(text string, first byte) (json.RawMessage, bool) {
	var out bytes.Buffer
	if text == "" || (first != 0 && text[0] != first) || json.Compact(&out, []byte(text)) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// typeError says which type of value is expected.
func typeError(types []string) error {
	kind := strings.Join(types, " or ")
	text := map[string]string{
		"integer": "a whole number is wanted", "number": "a number is wanted", "boolean": "yes or no is wanted",
		"array": `a JSON array is wanted, such as ["a", "b"]`, "object": `a JSON object is wanted, such as {"a": 1}`,
		"json": `JSON is wanted; a text needs double quotes, such as '"text"'`,
	}[kind]
	return errors.New(cmp.Or(text, kind+" is wanted"))
}

// Object checks that text is a JSON object and returns it on one line, with its numbers unchanged.
func Object(text string) (string, error) {
	exact, err := schema.ExactObject(nil, strings.TrimSpace(text))
	if err != nil {
		return "", errors.New(errs.From(err).Message)
	}
	return exact, nil
}

// ObjectFlag returns the JSON object in a flag's value, or in the file that @FILE names; "" stays "".
func ObjectFlag(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if path, ok := strings.CutPrefix(text, "@"); ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", Usagef("read the %s: %v", flag, err)
		}
		text = string(raw)
	}
	exact, err := Object(text)
	if err != nil {
		return "", Usagef("the %s must be one JSON object: %v", flag, err).
			Then(`give an object such as --%[1]s '{"path": "a.txt"}', or a file with --%[1]s @FILE`, flag)
	}
	return exact, nil
}
