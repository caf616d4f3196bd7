package jsonref

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pawl.dev/services/strictjson"
)

// Ref is a reference: a name, and a path into its value.
type Ref struct {
	Name string
	Path []string // member names and array indexes
}

// String returns the reference as written in a template.
func (r Ref) String() string {
	return "${" + strings.Join(append([]string{r.Name}, r.Path...), ".") + "}"
}

// Resolve returns the template as compact JSON with each reference replaced. lookup returns the value of a name as JSON
// text. An unknown name or path is an error.
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

// ResolveText is Resolve for a template that is plain text, not JSON. A template that is a single reference becomes the value's text:
// the content of a string, and any other value as compact JSON.
func ResolveText(template string, lookup func(name string) (json string, ok bool)) (string, error) {
	value, err := Resolve(strictjson.Quote(template), lookup)
	return strictjson.Content(value), err
}

// Refs returns the references of a template, each once, in the order of their first use.
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

// mapStrings compacts a template and replaces each string that is a value, not a key, by the result of f.
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

// find follows a reference to its value.
func find(ref Ref, lookup func(string) (string, bool)) (string, error) {
	value, ok := lookup(ref.Name)
	if !ok {
		return "", fmt.Errorf("%s: there is no value named %q", ref, ref.Name)
	}
	if err := strictjson.Check(value, strictjson.Rules{}); err != nil {
		return "", fmt.Errorf("%s: the value of %q is not valid JSON: %w", ref, ref.Name, err)
	}
	at := ref.Name
	for _, step := range ref.Path {
		next, err := descend(value, step)
		if err != nil {
			return "", fmt.Errorf("%s: %s %w", ref, at, err)
		}
		value, at = next, at+"."+step
	}
	return value, nil
}

func descend(value, step string) (string, error) {
	switch kind := strictjson.Kind(value); kind {
	case "object":
		if next, ok := strictjson.Member(value, step); ok {
			return next, nil
		}
		return "", fmt.Errorf("has no member %q; it has %s", step, memberNames(value))
	case "array":
		i, err := strconv.Atoi(step)
		n := 0
		for item := range strictjson.Items(value) {
			if err == nil && n == i {
				return item, nil
			}
			n++
		}
		switch {
		case n == 0:
			return "", fmt.Errorf("is an empty array and has no item %q", step)
		case err != nil || i < 0:
			return "", fmt.Errorf("is an array; %q is not one of its indexes 0 to %d", step, n-1)
		}
		return "", fmt.Errorf("is an array and has no item %d; its indexes are 0 to %d", i, n-1)
	default:
		return "", fmt.Errorf("is %s and has no members, so there is no %q", strictjson.WithArticle(kind), step)
	}
}

func memberNames(object string) string {
	const maxNames = 20
	var names []string
	for name := range strictjson.Members(object) {
		if len(names) == maxNames {
			names = append(names, "…")
			break
		}
		names = append(names, strconv.Quote(name))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
