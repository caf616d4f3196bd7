package schema

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"pawl.dev/services/similar"
)

// explainer turns the validator's tree of errors into problems that a person can fix. The zero explainer suggests no names.
type explainer struct {
	graph *graph
	doc   any
}

// explain returns all problems in a tree of errors.
func (e explainer) explain(err *jsonschema.ValidationError) *Invalid {
	problems := e.flatten(err)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return &Invalid{Problems: slices.Compact(problems)}
}

func (e explainer) flatten(err *jsonschema.ValidationError) []Problem {
	at := pointer(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return []Problem{{at, alternatives(at, err.Causes)}}
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			which := strings.ReplaceAll(join(k.Subschemas, func(i int) string { return strconv.Itoa(i + 1) }), ", ", " and ")
			return []Problem{{at, "must fit exactly one alternative, fits alternatives " + which}}
		}
		return []Problem{{at, alternatives(at, err.Causes)}}
	case *kind.Required:
		var all []Problem
		for _, name := range k.Missing {
			all = append(all, Problem{at, fmt.Sprintf("required property %q is missing", name) + e.misspeltHint(name, err)})
		}
		return all
	case *kind.AdditionalProperties:
		return []Problem{{at, describe(k) + e.suggest(k.Properties, err)}}
	case *kind.PropertyNames:
		return []Problem{{at, fmt.Sprintf("the property name %q is not allowed: %s", k.Property, inline(at, err.Causes))}}
	}
	if len(err.Causes) == 0 {
		return []Problem{{at, describe(err.ErrorKind)}}
	}
	var all []Problem
	for _, cause := range err.Causes {
		all = append(all, e.flatten(cause)...)
	}
	return all
}

// isMissingProperty reports whether the problem is a missing property without a misspeltHint.
func (p Problem) isMissingProperty() bool {
	return strings.HasPrefix(p.Message, "required property ") && strings.HasSuffix(p.Message, " is missing")
}

// suggest returns the known names that are similar to unknown ones, as a question.
func (e explainer) suggest(unknown []string, err *jsonschema.ValidationError) string {
	known, _ := e.names(err)
	var suggested []string
	for _, name := range slices.Sorted(slices.Values(unknown)) {
		if near := similar.Names(name, known); len(near) > 0 {
			suggested = append(suggested, strconv.Quote(near[0]))
		}
	}
	if len(suggested) == 0 {
		return ""
	}
	return ", did you mean " + strings.Join(suggested, " and ") + "?"
}

// misspeltHint returns a hint to an unknown property that may be the missing one, or "". A schema that refuses unknown properties reports them
// without this hint.
func (e explainer) misspeltHint(missing string, err *jsonschema.ValidationError) string {
	known, closed := e.names(err)
	if closed {
		return ""
	}
	var unknown []string
	object, _ := valueAt(e.doc, err.InstanceLocation).(map[string]any)
	for name := range object {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	near := similar.Names(missing, unknown)
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; %q is not known, did you mean %q?", near[0], missing)
}

// names returns the properties that the schema of an error knows, and whether it refuses others.
func (e explainer) names(err *jsonschema.ValidationError) (names []string, closed bool) {
	if e.graph == nil {
		return nil, true
	}
	for s := range e.graph.parts {
		if s.Location == err.SchemaURL {
			return slices.Collect(maps.Keys(s.Properties)), s.AdditionalProperties == false
		}
	}
	return nil, false
}

// valueAt returns the value at a location within a document; nil if none.
func valueAt(doc any, location []string) any {
	for _, step := range location {
		switch at := doc.(type) {
		case map[string]any:
			doc = at[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			doc = at[i]
		}
	}
	return doc
}

// alternatives describes why none of several schemas fits. If they all fail only because of the type, one sentence is enough.
func alternatives(at string, causes []*jsonschema.ValidationError) string {
	var want []string
	var got string
	for _, cause := range causes {
		t, ok := typeProblem(at, cause)
		if !ok {
			return "fits none of the alternatives: " + inlineEach(at, causes)
		}
		got = t.Got
		want = append(want, t.Want...)
	}
	slices.Sort(want)
	return wrongType(slices.Compact(want), got)
}

// typeProblem returns the type error of the value at a location; ok is true if the value has no other problem.
func typeProblem(at string, err *jsonschema.ValidationError) (t *kind.Type, ok bool) {
	for {
		if t, ok := err.ErrorKind.(*kind.Type); ok {
			return t, pointer(err.InstanceLocation) == at
		}
		if len(err.Causes) != 1 {
			return nil, false
		}
		err = err.Causes[0]
	}
}

// inlineEach numbers the alternatives and describes the problems of each.
func inlineEach(at string, causes []*jsonschema.ValidationError) string {
	parts := make([]string, 0, len(causes))
	for i, cause := range causes {
		parts = append(parts, fmt.Sprintf("(%d) %s", i+1, inline(at, []*jsonschema.ValidationError{cause})))
	}
	return strings.Join(parts, "; ")
}

// inline describes all problems at and below a location in one line.
func inline(at string, causes []*jsonschema.ValidationError) string {
	var wrong []string
	for _, cause := range causes {
		for _, p := range (explainer{}).flatten(cause) {
			if p.Pointer == at {
				p.Pointer = ""
			}
			wrong = append(wrong, p.String())
		}
	}
	slices.Sort(wrong)
	return strings.Join(wrong, ", ")
}

func pointer(location []string) string {
	var p jsontext.Pointer
	for _, step := range location {
		p = p.AppendToken(step)
	}
	return string(p)
}
