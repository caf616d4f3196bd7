package playbook

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
	"go.yaml.in/yaml/v3"

	"pawl.dev/services/jsonref"
	"pawl.dev/services/strictjson"

	"pawl.dev/planner-svc/internal/lang"
)

// maxShown is how much of a value an error shows, in characters.
const maxShown = 200

// operators lists the operators of expectations, in the order in which they are checked.
var operators = []string{"exists", "equals", "not_equals", "contains", "matches", "gte", "lte"}

func (r *reader) expectation(n *yaml.Node) Expectation {
	e := Expectation{Path: child(n, "path").Value, Line: n.Line}
	for _, op := range operators {
		v := child(n, op)
		if v.IsZero() {
			continue
		}
		c := check{op: op, operand: r.json(v, 0, op != "matches")}
		if op == "matches" {
			var err error
			if c.pattern, err = regexp.Compile(v.Value); err != nil {
				r.addProblem(v, "`matches` must be a regular expression (RE2 syntax)")
			}
		}
		e.Checks = append(e.Checks, c)
	}
	return e
}

// verify returns an error if a step's output does not meet the expectation. lookup returns the values of references in operands.
func (e *Expectation) verify(output string, lookup func(string) (string, bool)) error {
	const self = "output"
	ref := "${" + self + "}"
	if e.Path != "" {
		ref = "${" + self + "." + e.Path + "}"
	}
	value, err := jsonref.Resolve(strictjson.Quote(ref), func(name string) (string, bool) { return output, name == self })
	where := cmp.Or(e.Path, "the output")
	for _, c := range e.Checks {
		if c.op == "exists" {
			if want := c.operand == "true"; want != (err == nil) {
				return fmt.Errorf("expected that %s %s", where, map[bool]string{true: "exists, but it does not", false: "does not exist, but it does"}[want])
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("expected %s %s, but it does not exist: %w", where, c.describe(c.operand), err)
		}
		operand := c.operand
		if c.op != "matches" {
			if operand, err = jsonref.Resolve(c.operand, lookup); err != nil {
				return err
			}
		}
		if !c.test(value, operand) {
			return fmt.Errorf("expected %s %s, got %s", where, c.describe(operand), lang.Clip(value, maxShown))
		}
	}
	return nil
}

// describe describes a check for an error message.
func (c *check) describe(operand string) string {
	return map[string]string{"equals": "to be", "not_equals": "not to be", "contains": "to contain", "matches": "to match", "gte": "to be at least", "lte": "to be at most"}[c.op] +
		" " + lang.Clip(operand, maxShown)
}

func (c *check) test(value, operand string) bool {
	v, o := values.NativeToValue(celValue(value)), values.NativeToValue(celValue(operand))
	switch c.op {
	case "equals":
		return types.Equal(v, o) == types.True
	case "not_equals":
		return types.Equal(v, o) != types.True
	case "contains":
		if text, ok := v.Value().(string); ok {
			return strings.Contains(text, strictjson.Content(operand))
		}
		container, ok := v.(traits.Container)
		return ok && container.Contains(o) == types.True
	case "matches":
		return c.pattern.MatchString(strictjson.Content(value))
	}
	if strictjson.Kind(value) != "number" || strictjson.Kind(operand) != "number" {
		return false
	}
	order, ok := v.(traits.Comparer).Compare(o).(types.Int)
	return ok && (c.op == "gte" && order >= 0 || c.op == "lte" && order <= 0)
}
