package jsonref

import (
	"errors"
	"fmt"
	"strings"

	"pawl.dev/services/strictjson"
)

// ErrNotYet is a template that cannot be resolved in part without changing the final result. It has to wait until all
// values are known.
var ErrNotYet = errors.New("the template cannot be resolved in part; resolve it when every value is there")

// Partial resolves the references whose values are there, and returns a template again: resolving that gives, to the byte,
// what resolving the whole template with every value gives. Later gives the names that the other references have from then
// on; a name that it does not know is looked up now, and must be there. Open tells whether references are left.
//
// Some results have no template: a `$` right before a reference that is left, for one, would escape it. These are ErrNotYet.
func Partial(template string, lookup func(name string) (json string, ok bool), later func(name string) (renamed string, ok bool)) (result string, open bool, err error) {
	if err := strictjson.Check(template, strictjson.Rules{}); err != nil {
		return "", false, fmt.Errorf("the template is not valid JSON: %w", err)
	}
	p := &partial{lookup: lookup, later: later}
	result, err = mapStrings(template, p.mapString)
	if err != nil {
		return "", false, err
	}
	// Nested values may be too deep for a template, although they are not for a result.
	if p.nested && strictjson.Check(result, strictjson.Rules{}) != nil {
		return "", false, ErrNotYet
	}
	return result, p.open, nil
}

// Escape writes a text so that it stands for itself in a template.
func Escape(text string) string { return strings.ReplaceAll(text, open, escaped) }

type partial struct {
	lookup func(string) (string, bool)
	later  func(string) (string, bool)
	open   bool
	nested bool // a whole value was put in
}

func (p *partial) mapString(raw string) (string, error) {
	parts, err := parse(strictjson.Unquote(raw))
	if err != nil {
		return "", err
	}
	left := false
	for _, part := range parts {
		if part.ref == nil {
			continue
		}
		if _, ok := p.later(part.ref.Name); ok {
			left = true
		}
	}
	switch {
	case left:
		p.open = true
		return p.mixed(parts)
	case len(parts) == 1 && parts[0].ref != nil:
		value, err := find(*parts[0].ref, p.lookup)
		if err != nil {
			return "", err
		}
		p.nested = true
		return mapStrings(value, escapeString)
	case !hasRefs(parts):
		return raw, nil // its escapes are undone when the rest is resolved
	}
	whole, err := render(raw, parts, p.lookup)
	if err != nil {
		return "", err
	}
	return escapeString(whole)
}

// mixed keeps the references that are left, under their new names, and resolves the others.
func (p *partial) mixed(parts []part) (string, error) {
	var text, literal strings.Builder
	alone := 0 // how long the text is if it is nothing but the last reference
	for _, part := range parts {
		if part.ref == nil {
			literal.WriteString(part.text)
			continue
		}
		renamed, ok := p.later(part.ref.Name)
		if !ok {
			value, err := textOf(*part.ref, p.lookup)
			if err != nil {
				return "", err
			}
			literal.WriteString(value)
			continue
		}
		if strings.HasSuffix(literal.String(), "$") || !isName(renamed) {
			return "", ErrNotYet
		}
		text.WriteString(Escape(literal.String()))
		ref := Ref{Name: renamed, Path: part.ref.Path}.String()
		text.WriteString(ref)
		literal.Reset()
		alone = len(ref)
	}
	if len(parts) > 1 && text.Len()+literal.Len() == alone {
		return "", ErrNotYet // it was part of a longer text; by itself it would keep its type
	}
	text.WriteString(Escape(literal.String()))
	return strictjson.Quote(text.String()), nil
}

// escapeString escapes a string of a value. Resolving quotes an escaped string again; one that would then look different has
// to wait.
func escapeString(raw string) (string, error) {
	text := strictjson.Unquote(raw)
	if !strings.Contains(text, open) {
		return raw, nil
	}
	if strictjson.Quote(text) != raw {
		return "", ErrNotYet
	}
	return strictjson.Quote(Escape(text)), nil
}

func hasRefs(parts []part) bool {
	for _, p := range parts {
		if p.ref != nil {
			return true
		}
	}
	return false
}
