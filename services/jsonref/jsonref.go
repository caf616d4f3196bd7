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

// String writes the reference as it stands in a template.
func (r Ref) String() string {
	if len(r.Path) == 0 {
		return "${" + r.Name + "}"
	}
	return "${" + strings.Join(append([]string{r.Name}, r.Path...), ".") + "}"
}

// Resolve returns the template as compact JSON with each reference replaced. Lookup gives the value of a name as JSON
// text. A name or a path that is not there is an error that says what is there.
func Resolve(template string, lookup func(name string) (json string, ok bool)) (string, error) {
	if err := strictjson.Check(template, strictjson.Rules{}); err != nil {
		return "", fmt.Errorf("the template is not valid JSON: %w", err)
	}
	return mapStrings(template, func(raw string) (string, error) {
		parts, err := parse(strictjson.Unquote(raw))
		if err != nil {
			return "", err
		}
		return render(raw, parts, lookup)
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
	if err := strictjson.Check(template, strictjson.Rules{}); err != nil {
		return nil, fmt.Errorf("the template is not valid JSON: %w", err)
	}
	var refs []Ref
	_, err := mapStrings(template, func(raw string) (string, error) {
		parts, err := parse(strictjson.Unquote(raw))
		for _, p := range parts {
			if p.ref != nil && !slices.ContainsFunc(refs, func(r Ref) bool { return r.String() == p.ref.String() }) {
				refs = append(refs, *p.ref)
			}
		}
		return raw, err
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

// mapStrings writes JSON compactly with each string that is a value, not a key, replaced by what f makes of it.
func mapStrings(raw string, f func(raw string) (string, error)) (string, error) {
	var b strings.Builder
	b.Grow(len(raw) + len(raw)/4) // what takes a reference's place is often longer
	if err := writeMapped(&b, raw, f); err != nil {
		return "", err
	}
	return b.String(), nil
}

func writeMapped(b *strings.Builder, raw string, f func(string) (string, error)) error {
	switch strictjson.Kind(raw) {
	case "object":
		separator := "{"
		for key, value := range strictjson.RawMembers(raw) {
			b.WriteString(separator)
			b.WriteString(key)
			b.WriteByte(':')
			if err := writeMapped(b, value, f); err != nil {
				return err
			}
			separator = ","
		}
		if separator == "{" {
			b.WriteByte('{')
		}
		b.WriteByte('}')
	case "array":
		separator := "["
		for item := range strictjson.Items(raw) {
			b.WriteString(separator)
			if err := writeMapped(b, item, f); err != nil {
				return err
			}
			separator = ","
		}
		if separator == "[" {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	case "string":
		s, err := f(strings.TrimSpace(raw))
		if err != nil {
			return err
		}
		b.WriteString(s)
	default:
		b.WriteString(strings.TrimSpace(raw))
	}
	return nil
}

// render makes the JSON that takes a string's place.
func render(raw string, parts []part, lookup func(string) (string, bool)) (string, error) {
	if len(parts) == 1 && parts[0].ref != nil {
		value, err := find(*parts[0].ref, lookup)
		return strictjson.Compact(value), err
	}
	if !slices.ContainsFunc(parts, func(p part) bool { return p.changes }) {
		return raw, nil
	}
	var text strings.Builder
	for _, p := range parts {
		if p.ref == nil {
			text.WriteString(p.text)
			continue
		}
		value, err := textOf(*p.ref, lookup)
		if err != nil {
			return "", err
		}
		text.WriteString(value)
	}
	return strictjson.Quote(text.String()), nil
}

// textOf is a value as a longer string shows it.
func textOf(ref Ref, lookup func(string) (string, bool)) (string, error) {
	value, err := find(ref, lookup)
	if err != nil {
		return "", err
	}
	if strictjson.Kind(value) != "string" {
		return strictjson.Compact(value), nil
	}
	return strictjson.Content(value), nil
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
		return item(value, step)
	default:
		return "", fmt.Errorf("is a %s and has no members, so there is no %q", strings.Replace(kind, "null", "null value", 1), step)
	}
}

func item(array, step string) (string, error) {
	want, err := strconv.Atoi(step)
	n := 0
	for value := range strictjson.Items(array) {
		if err == nil && n == want {
			return value, nil
		}
		n++
	}
	switch {
	case n == 0:
		return "", fmt.Errorf("is an empty array and has no item %q", step)
	case err != nil || want < 0:
		return "", fmt.Errorf("is an array; %q is not one of its indexes 0 to %d", step, n-1)
	default:
		return "", fmt.Errorf("is an array and has no item %d; its indexes are 0 to %d", want, n-1)
	}
}

func memberNames(object string) string {
	const most = 20
	var names []string
	for name := range strictjson.Members(object) {
		if len(names) == most {
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
