package jsonref

import (
	"errors"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"
)

// ErrNotYet is a template that cannot be resolved in part without changing the final result. It has to wait until all
// values are known.
var ErrNotYet = errors.New("the template cannot be resolved in part; resolve it when every value is there")

// Partial resolves the references whose values are known, and returns a template for the rest: resolving that gives, to the byte,
// the result of resolving the whole template with every value. Later maps the names of references that stay to the names
// that they get; a name that it does not have is looked up now, and must be known. Open reports whether references are left.
//
// Some partial results cannot be written as a template: a `$` right before a reference that is left, for one, would escape it. These are ErrNotYet.
func Partial(template string, lookup func(name string) (json string, ok bool), later func(name string) (renamed string, ok bool)) (result string, open bool, err error) {
	nested := false // a whole value was put in
	result, err = mapStrings(template, func(raw string, parts []part) (string, error) {
		isLater := func(p part) bool {
			if p.ref == nil {
				return false
			}
			_, ok := later(p.ref.Name)
			return ok
		}
		switch {
		case slices.ContainsFunc(parts, isLater):
			open = true
			return mixed(parts, lookup, later)
		case len(parts) == 1 && parts[0].ref != nil:
			nested = true
			value, err := find(*parts[0].ref, lookup)
			if err != nil {
				return "", err
			}
			return strictjson.MapStrings(value, escapeString)
		case !slices.ContainsFunc(parts, func(p part) bool { return p.ref != nil }):
			return raw, nil // its escapes are undone when the rest is resolved
		}
		text, err := render(parts, lookup)
		return strictjson.Quote(Escape(text)), err
	})
	if err != nil {
		return "", false, err
	}
	// Nested values may be too deep for a template, although they are not for a result.
	if nested && strictjson.Check(result, strictjson.Rules{}) != nil {
		return "", false, ErrNotYet
	}
	return result, open, nil
}

// Escape writes a text so that it stands for itself in a template.
func Escape(text string) string { return strings.ReplaceAll(text, open, escaped) }

// mixed keeps the references that are left, under their new names, and resolves the others.
func mixed(parts []part, lookup, later func(string) (string, bool)) (string, error) {
	var text, literal strings.Builder
	alone := 0 // how long the text is if it is nothing but the last reference
	for _, p := range parts {
		renamed, left := "", false
		if p.ref != nil {
			renamed, left = later(p.ref.Name)
		}
		if !left {
			value, err := render([]part{p}, lookup)
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
		ref := Ref{Name: renamed, Path: p.ref.Path}.String()
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
