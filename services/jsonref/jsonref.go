package jsonref

import (
	"fmt"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"
)

// Ref is a reference: a name, and a path into its value.
type Ref struct {
	Name string
	Path []string // member names and array indexes
}

// String writes the reference as it stands in a template.
func (r Ref) String() string {
	return "${" + strings.Join(append([]string{r.Name}, r.Path...), ".") + "}"
}

// Resolve returns the template as compact JSON with each reference replaced. Lookup gives the value of a name as JSON
// text. A name or a path that is not there is an error that says what is there.
func Resolve(template string, lookup func(name string) (json string, ok bool)) (string, error) {
	return mapStrings(template, func(raw string, parts []part) (string, error) {
		if len(parts) == 1 && parts[0].ref != nil {
			value, err := find(*parts[0].ref, lookup)
			return strictjson.Compact(value), err
		}
		if !slices.ContainsFunc(parts, func(p part) bool { return p.changes }) {
			return raw, nil
		}
		text, err := render(parts, lookup)
		return strictjson.Quote(text), err
	})
}

// ResolveText is Resolve for a template that is a text and no JSON. A text that is nothing but a reference becomes the value's
// text: a string's content, and everything else as compact JSON.
func ResolveText(template string, lookup func(name string) (json string, ok bool)) (string, error) {
	value, err := Resolve(strictjson.Quote(template), lookup)
	return strictjson.Content(value), err
}

// Refs returns the references of a template, each once, in the order in which they stand there.
func Refs(template string) ([]Ref, error) {
	var refs []Ref
	_, err := mapStrings(template, func(raw string, parts []part) (string, error) {
		for _, p := range parts {
			if p.ref != nil && !slices.ContainsFunc(refs, func(r Ref) bool { return r.String() == p.ref.String() }) {
				refs = append(refs, *p.ref)
			}
		}
		return raw, nil
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

// mapStrings returns a template as compact JSON with each string that is a value, not a key, replaced by what f makes of it.
func mapStrings(template string, f func(raw string, parts []part) (string, error)) (string, error) {
	if err := strictjson.Check(template, strictjson.Rules{}); err != nil {
		return "", fmt.Errorf("the template is not valid JSON: %w", err)
	}
	return strictjson.MapStrings(template, func(raw string) (string, error) {
		parts, err := parse(strictjson.Unquote(raw))
		if err != nil {
			return "", err
		}
		return f(raw, parts)
	})
}

// render returns the text of a string with its references replaced.
func render(parts []part, lookup func(string) (string, bool)) (string, error) {
	var text strings.Builder
	for _, p := range parts {
		if p.ref == nil {
			text.WriteString(p.text)
			continue
		}
		value, err := find(*p.ref, lookup)
		if err != nil {
			return "", err
		}
		text.WriteString(strictjson.Content(strictjson.Compact(value)))
	}
	return text.String(), nil
}
