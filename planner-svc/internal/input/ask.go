package input

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/catalog"
)

// Offending returns the names of the properties that a person should look at: required ones that are missing, those that the schema refuses, and
// those whose name or value the error contains. If there are none, it returns all required properties; if none is required, all properties.
func Offending(t *catalog.Tool, in *strictjson.Object, failure string) []string {
	found := t.Missing(in)
	for _, problem := range problems(t, in) {
		name, _, _ := strings.Cut(strings.TrimPrefix(problem.Pointer, "/"), "/")
		found = append(found, strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	words := strings.FieldsFunc(strings.ToLower(failure), func(r rune) bool {
		return r != '_' && r != '-' && (r > unicode.MaxLatin1 || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
	var named, required, all []string
	for _, p := range t.Props {
		raw, _ := in.Get(p.Name)
		value := strictjson.Content(raw)
		// A single letter in an error is no name.
		if slices.Contains(found, p.Name) || len(p.Name) > 1 && slices.Contains(words, strings.ToLower(p.Name)) || len(value) > 1 && strings.Contains(failure, value) {
			named = append(named, p.Name)
		}
		if all = append(all, p.Name); p.Required {
			required = append(required, p.Name)
		}
	}
	switch {
	case len(named) > 0:
		return named
	case len(required) > 0:
		return required
	}
	return all
}

// problems returns the violations of the tool's schema by an input.
func problems(t *catalog.Tool, in *strictjson.Object) []schema.Problem {
	var invalid *schema.Invalid
	if t.Schema == nil || !errors.As(t.Schema.Validate(in.String()), &invalid) {
		return nil
	}
	return invalid.Problems
}

// Form returns the JSON Schema of an object with the named properties of a tool, each nullable, with titles and descriptions kept, none required.
func Form(t *catalog.Tool, names []string) string {
	props := &strictjson.Object{}
	for _, name := range names {
		if p := t.Prop(name); p != nil {
			props.Set(name, nullable(p))
		}
	}
	return `{"type":"object","properties":` + props.String() + `,"required":[]}`
}

// composed matches schemas that refer to others, combine them or take one value only: adding a type does not make them nullable.
var composed = regexp.MustCompile(`"(?:\$[a-zA-Z]+|anyOf|oneOf|allOf|not|const|if)":`)

// nullable returns a property's schema, made to accept null too. Of a composed schema, it keeps only the title, description, default, types and
// enum: the tool's own schema checks the completed input.
func nullable(p *catalog.Property) string {
	doc, err := strictjson.ParseObject(strictjson.Compact(p.Schema))
	if err != nil || composed.MatchString(doc.String()) {
		doc = &strictjson.Object{}
		for _, k := range []string{"title", "description", "default"} {
			if v, ok := strictjson.Member(p.Schema, k); ok {
				doc.Set(k, v)
			}
		}
	}
	if p.Type != "" {
		doc.Set("type", withNull(`["`+strings.ReplaceAll(p.Type, "|", `","`)+`"]`, `"null"`))
	}
	if p.Enum != "" {
		doc.Set("enum", withNull(p.Enum, "null"))
	}
	return doc.String()
}

// withNull adds null, which is the JSON to add, to a JSON array unless the array holds it.
func withNull(array, null string) string {
	items := slices.Collect(strictjson.Items(array))
	if !slices.Contains(items, null) {
		items = append(items, null)
	}
	return strictjson.Array(items)
}
