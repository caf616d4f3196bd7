package jsonref

import (
	"fmt"
	"strconv"
	"strings"

	"pawl.dev/services/strictjson"
)

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
		return "", fmt.Errorf("is a %s and has no members, so there is no %q", strings.Replace(kind, "null", "null value", 1), step)
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
