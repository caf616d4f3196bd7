package jsonref

import (
	"errors"
	"slices"
	"strings"

	"pawl.dev/services/strictjson"
)

// ErrNotYet reports that a template cannot be resolved in part without changing the final result. Resolve it when all
// values are known.
var ErrNotYet = errors.New("the template cannot be resolved in part; resolve it when every value is known")

// Partial resolves the references whose values are known, and returns a template with the other references. Resolving that template gives
// the same bytes as resolving the original with every value. If the value of a name is not known yet, later returns the name to use in the
// new template; otherwise later returns ok == false, and lookup returns the value. hasRefs reports whether the new template has references.
//
// Some partial results cannot be written as a template. For example, a `$` right before a remaining reference would escape it. Then the error is ErrNotYet.
func Partial(template string, lookup func(name string) (json string, ok bool), later func(name string) (renamed string, ok bool)) (result string, hasRefs bool, err error) {
	inserted := false // a value replaced a whole string
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
			hasRefs = true
			return resolveKnown(parts, lookup, later)
		case len(parts) == 1 && parts[0].ref != nil:
			inserted = true
			value, err := find(*parts[0].ref, lookup)
			if err != nil {
				return "", err
			}
			return strictjson.MapStrings(value, escapeString)
		case !slices.ContainsFunc(parts, func(p part) bool { return p.ref != nil }):
			return raw, nil // its escapes are resolved together with the remaining references
		}
		text, err := render(parts, lookup)
		return strictjson.Quote(Escape(text)), err
	})
	if err != nil {
		return "", false, err
	}
	// An inserted value may nest too deep for a template, whose depth is checked, although the final result may be that deep.
	if inserted && strictjson.Check(result, strictjson.Rules{}) != nil {
		return "", false, ErrNotYet
	}
	return result, hasRefs, nil
}

// Escape escapes a text for a template, so that resolving gives the text again.
func Escape(text string) string { return strings.ReplaceAll(text, open, escaped) }

// resolveKnown resolves the references whose values are known, and keeps the others under their new names.
func resolveKnown(parts []part, lookup, later func(string) (string, bool)) (string, error) {
	var text, literal strings.Builder
	lastRefLen := 0 // of the last reference that is kept
	for _, p := range parts {
		renamed, isLater := "", false
		if p.ref != nil {
			renamed, isLater = later(p.ref.Name)
		}
		if !isLater {
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
		lastRefLen = len(ref)
	}
	if len(parts) > 1 && text.Len()+literal.Len() == lastRefLen {
		return "", ErrNotYet // the other parts are empty now: alone, the reference would give its JSON value instead of a text
	}
	text.WriteString(Escape(literal.String()))
	return strictjson.Quote(text.String()), nil
}

// escapeString escapes a string within a value. Resolving quotes an escaped string again; if the result would be written differently,
// the error is ErrNotYet.
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
