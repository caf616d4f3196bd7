package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pawl.dev/services/strictjson"
)

// problemsOf flattens the validator's tree into what a person has to fix.
func problemsOf(err *jsonschema.ValidationError) *Invalid {
	problems := flatten(err)
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Message, b.Message))
	})
	return &Invalid{Problems: slices.Compact(problems)}
}

func flatten(err *jsonschema.ValidationError) []Problem {
	at := pointer(err.InstanceLocation)
	switch k := err.ErrorKind.(type) {
	case *kind.AnyOf:
		return []Problem{{at, alternatives(at, err.Causes)}}
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []Problem{{at, fmt.Sprintf("fits several of the alternatives of which it must fit one (%s)", ordinals(k.Subschemas))}}
		}
		return []Problem{{at, alternatives(at, err.Causes)}}
	case *kind.Required:
		var all []Problem
		for _, name := range k.Missing {
			all = append(all, Problem{at, missing(name)})
		}
		return all
	case *kind.PropertyNames:
		return []Problem{{at, fmt.Sprintf("the property name %q is not allowed: %s", k.Property, inline(err.Causes))}}
	}
	if len(err.Causes) == 0 {
		return []Problem{{at, describe(err.ErrorKind)}}
	}
	var all []Problem
	for _, cause := range err.Causes {
		all = append(all, flatten(cause)...)
	}
	return all
}

// alternatives says why none of several schemas fits. Where it is always the type, one sentence is enough.
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
	return fmt.Sprintf("must be %s, is %s", strings.Join(slices.Compact(want), " or "), got)
}

// typeProblem says whether the only thing wrong is the type of the value at that place.
func typeProblem(at string, err *jsonschema.ValidationError) (*kind.Type, bool) {
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

// inlineEach numbers the alternatives and says what is wrong with each.
func inlineEach(at string, causes []*jsonschema.ValidationError) string {
	parts := make([]string, 0, len(causes))
	for i, cause := range causes {
		var wrong []string
		for _, p := range flatten(cause) {
			if p.Pointer == at {
				p.Pointer = ""
			}
			wrong = append(wrong, p.String())
		}
		slices.Sort(wrong)
		parts = append(parts, fmt.Sprintf("(%d) %s", i+1, strings.Join(wrong, ", ")))
	}
	return strings.Join(parts, "; ")
}

func inline(causes []*jsonschema.ValidationError) string {
	var wrong []string
	for _, cause := range causes {
		for _, p := range flatten(cause) {
			wrong = append(wrong, p.Message)
		}
	}
	return strings.Join(wrong, ", ")
}

func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), k.Got)
	case *kind.Enum:
		return fmt.Sprintf("must be one of %s; is %s", shorten(showAll(offered(k.Want))), shorten(show(k.Got)))
	case *kind.Const:
		return fmt.Sprintf("must be %s; is %s", shorten(show(k.Want)), shorten(show(k.Got)))
	case *kind.AdditionalProperties:
		names := slices.Clone(k.Properties)
		slices.Sort(names)
		return fmt.Sprintf("has unknown %s %s", plural(len(names), "property", "properties"), shorten(quoteAll(names)))
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Format:
		if k.Want == "regex" {
			return fmt.Sprintf("the pattern %s is not understood; RE2 has no lookaround and no backreferences", shorten(show(k.Got)))
		}
		return fmt.Sprintf("must be a valid %s, is %s", k.Want, shorten(show(k.Got)))
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %s, is %s", k.Want, shorten(show(k.Got)))
	case *kind.Not:
		return "fits what it must not fit"
	case *kind.DependentRequired:
		return fmt.Sprintf("has %q and so must have %s too", k.Prop, quoteAll(k.Missing))
	case *kind.Dependency:
		return fmt.Sprintf("has %q and so must have %s too", k.Prop, quoteAll(k.Missing))
	case *kind.UniqueItems:
		return fmt.Sprintf("must have different items; items %d and %d are the same", k.Duplicates[0], k.Duplicates[1])
	case *kind.RefCycle:
		return "the schema refers to itself without end"
	}
	if text, ok := describeSize(k); ok {
		return text
	}
	return k.LocalizedString(message.NewPrinter(language.English))
}

// describeSize covers the keywords that compare with a number.
func describeSize(k jsonschema.ErrorKind) (string, bool) {
	switch k := k.(type) {
	case *kind.Minimum:
		return bound("at least", k.Want, k.Got), true
	case *kind.Maximum:
		return bound("at most", k.Want, k.Got), true
	case *kind.ExclusiveMinimum:
		return bound("greater than", k.Want, k.Got), true
	case *kind.ExclusiveMaximum:
		return bound("less than", k.Want, k.Got), true
	case *kind.MultipleOf:
		return bound("a multiple of", k.Want, k.Got), true
	case *kind.MinLength:
		return count("at least", k.Want, "character", k.Got), true
	case *kind.MaxLength:
		return count("at most", k.Want, "character", k.Got), true
	case *kind.MinItems:
		return count("at least", k.Want, "item", k.Got), true
	case *kind.MaxItems:
		return count("at most", k.Want, "item", k.Got), true
	case *kind.MinProperties:
		return count("at least", k.Want, "member", k.Got), true
	case *kind.MaxProperties:
		return count("at most", k.Want, "member", k.Got), true
	}
	return "", false
}

func bound(relation string, want, got *big.Rat) string {
	return fmt.Sprintf("must be %s %s, is %s", relation, shorten(number(want)), shorten(number(got)))
}

func count(relation string, want int, unit string, got int) string {
	return fmt.Sprintf("must have %s %d %s, has %d", relation, want, plural(want, unit, unit+"s"), got)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// number writes a rational as a decimal where it has an exact one.
func number(r *big.Rat) string {
	if digits, exact := r.FloatPrec(); exact {
		return r.FloatString(digits)
	}
	return r.RatString()
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func showAll(values []any) string {
	parts := make([]string, 0, len(values))
	for _, v := range values {
		parts = append(parts, show(v))
	}
	return strings.Join(parts, ", ")
}

func quoteAll(names []string) string {
	parts := make([]string, 0, len(names))
	for _, n := range names {
		parts = append(parts, fmt.Sprintf("%q", n))
	}
	return strings.Join(parts, ", ")
}

func ordinals(indexes []int) string {
	parts := make([]string, 0, len(indexes))
	for _, i := range indexes {
		parts = append(parts, fmt.Sprint(i+1))
	}
	return strings.Join(parts, " and ")
}

// shorten keeps a long value from drowning the message.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func pointer(location []string) string {
	var b strings.Builder
	for _, step := range location {
		b.WriteByte('/')
		b.WriteString(strictjson.EscapePointer(step))
	}
	return b.String()
}
