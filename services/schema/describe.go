package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"pawl.dev/services/strictjson"
)

// describe returns the message of one error.
func describe(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return wrongType(k.Want, k.Got)
	case *kind.Enum:
		return fmt.Sprintf("must be one of %s; is %s", shorten(join(valuesToShow(k.Want), show)), shorten(show(k.Got)))
	case *kind.Const:
		return fmt.Sprintf("must be %s; is %s", shorten(show(k.Want)), shorten(show(k.Got)))
	case *kind.AdditionalProperties:
		names := slices.Clone(k.Properties)
		slices.Sort(names)
		return fmt.Sprintf("has unknown %s %s", plural(len(names), "property", "properties"), shorten(join(names, strconv.Quote)))
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
		return "must not fit the schema under \"not\""
	case *kind.DependentRequired:
		return fmt.Sprintf("has %q and so must have %s too", k.Prop, join(k.Missing, strconv.Quote))
	case *kind.Dependency:
		return fmt.Sprintf("has %q and so must have %s too", k.Prop, join(k.Missing, strconv.Quote))
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

// wrongType describes a value whose JSON type is not one of the wanted types.
func wrongType(want []string, got string) string {
	wanted := make([]string, 0, len(want))
	for _, name := range want {
		wanted = append(wanted, strictjson.WithArticle(name))
	}
	return fmt.Sprintf("must be %s, is %s", strings.Join(wanted, " or "), strictjson.WithArticle(got))
}

// describeSize describes errors of the keywords that compare with a number.
func describeSize(k jsonschema.ErrorKind) (string, bool) {
	switch k := k.(type) {
	case *kind.Minimum:
		return describeBound("at least", k.Want, k.Got), true
	case *kind.Maximum:
		return describeBound("at most", k.Want, k.Got), true
	case *kind.ExclusiveMinimum:
		return describeBound("greater than", k.Want, k.Got), true
	case *kind.ExclusiveMaximum:
		return describeBound("less than", k.Want, k.Got), true
	case *kind.MultipleOf:
		return describeBound("a multiple of", k.Want, k.Got), true
	case *kind.MinLength:
		return describeCount("at least", k.Want, "character", k.Got), true
	case *kind.MaxLength:
		return describeCount("at most", k.Want, "character", k.Got), true
	case *kind.MinItems:
		return describeCount("at least", k.Want, "item", k.Got), true
	case *kind.MaxItems:
		return describeCount("at most", k.Want, "item", k.Got), true
	case *kind.MinProperties:
		return describeCount("at least", k.Want, "member", k.Got), true
	case *kind.MaxProperties:
		return describeCount("at most", k.Want, "member", k.Got), true
	}
	return "", false
}

func describeBound(relation string, want, got *big.Rat) string {
	return fmt.Sprintf("must be %s %s, is %s", relation, shorten(number(want)), shorten(number(got)))
}

func describeCount(relation string, want int, unit string, got int) string {
	return fmt.Sprintf("must have %s %d %s, has %d", relation, want, plural(want, unit, unit+"s"), got)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// number writes a rational as a decimal if it has an exact one.
func number(r *big.Rat) string {
	if digits, exact := r.FloatPrec(); exact {
		return r.FloatString(digits)
	}
	return r.RatString()
}

// valuesToShow returns the values of an enum without the empty text, which stands for "none", unless it is the only value.
func valuesToShow(values []any) []any {
	nonempty := slices.DeleteFunc(slices.Clone(values), func(v any) bool { return v == "" })
	if len(nonempty) == 0 {
		return values
	}
	return nonempty
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func join[T any](values []T, show func(T) string) string {
	parts := make([]string, 0, len(values))
	for _, v := range values {
		parts = append(parts, show(v))
	}
	return strings.Join(parts, ", ")
}

// shorten cuts a long value.
func shorten(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
