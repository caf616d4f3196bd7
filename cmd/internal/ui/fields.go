package ui

import (
	"encoding/json"
	"fmt"
	"strings"

	"pawl.dev/services/schema"
)

// Field is one property of an object that a schema asks for.
type Field struct {
	Name        string
	Types       []string // of JSON, without null; empty: any
	Description string
	Enum        []json.RawMessage // without null; empty: any value
	Titles      []string          // of Enum's values, in its order; "" where one has none
	Many        bool              // the value is an array of what Enum has
	Required    bool
	Schema      string          // the property's own
	Default     json.RawMessage // nil if there is none
}

// Fields returns what the schema of an object asks for, in the schema's order.
func Fields(schemaJSON string) ([]Field, error) {
	s, err := schema.Compile(schemaJSON)
	if err != nil {
		return nil, fmt.Errorf("read the schema of what is asked for: %w", err)
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
		f.choose(p)
		fields = append(fields, f)
	}
	return fields, nil
}

// ObjectOfPairs makes a JSON object of K=V pairs. rawJSON takes each V as JSON. Where strict is set, a name that the schema does
// not have is an error.
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
	raw, err := marshal(object)
	return string(raw), err
}

// Missing names what a schema requires and K=V pairs do not give.
func Missing(schemaJSON string, pairs []string) ([]string, error) {
	fields, err := Fields(schemaJSON)
	if err != nil {
		return nil, err
	}
	given := map[string]bool{}
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		given[name] = true
	}
	var missing []string
	for _, f := range fields {
		if f.Required && !given[f.Name] {
			missing = append(missing, f.Name)
		}
	}
	return missing, nil
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
		return Field{}, fmt.Errorf("%s is not asked for; there is %s", name, strings.Join(names, ", "))
	}
	return Field{Name: name}, nil
}
