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

// mostShown is how much of a value an error shows, in characters.
const mostShown = 200

// operators lists the operators of expectations, in the order in which they are checked.
var operators = []string{"exists", "equals", "not_equals", "contains", "matches", "gte", "lte"}

func (r *reader) expectations(n *yaml.Node) (all []Expectation) {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "`expect` must be a list, such as `- { path: structured.count, gte: 1 }`")
		return nil
	}
	for _, item := range n.Content {
		e := Expectation{Line: item.Line}
		keys := []member{{"path", func(v *yaml.Node) {
			e.Path = r.matching(v, "path", pathPattern, "be names and indexes with dots between them, such as structured.files.0")
		}}}
		for _, op := range operators {
			keys = append(keys, member{op, func(v *yaml.Node) { e.Checks = append(e.Checks, r.check(op, v)) }})
		}
		r.members(item, "an expectation", keys...)
		if item.Kind == yaml.MappingNode && len(e.Checks) == 0 {
			r.wrong(item, "an expectation needs one of "+strings.Join(operators, ", "))
		}
		all = append(all, e)
	}
	return all
}

func (r *reader) check(op string, n *yaml.Node) check {
	c := check{op: op, operand: r.json(n, 0, op != "matches")}
	kind := strictjson.Kind(c.operand)
	switch op {
	case "exists":
		if kind != "boolean" {
			r.wrong(n, "`exists` must be true or false")
		}
	case "gte", "lte":
		if kind != "number" && len(namesIn(c.operand)) == 0 {
			r.wrong(n, "`"+op+"` must be a number")
		}
	case "matches":
		pattern, err := regexp.Compile(strictjson.Content(c.operand))
		if err != nil || kind != "string" {
			r.wrong(n, "`matches` must be a regular expression (RE2 syntax)")
		}
		c.pattern = pattern
	}
	return c
}

// holds checks an expectation of a step's output; the error names the expected and the actual value.
func (e *Expectation) holds(output string, lookup func(string) (string, bool)) error {
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
			return fmt.Errorf("expected %s %s, but it is not there: %w", where, c.words(c.operand), err)
		}
		operand := c.operand
		if c.op != "matches" {
			if operand, err = jsonref.Resolve(c.operand, lookup); err != nil {
				return err
			}
		}
		if !c.test(value, operand) {
			return fmt.Errorf("expected %s %s, got %s", where, c.words(operand), lang.Clip(value, mostShown))
		}
	}
	return nil
}

// words describes a check for an error message.
func (c *check) words(operand string) string {
	return map[string]string{"equals": "to be", "not_equals": "not to be", "contains": "to contain", "matches": "to match", "gte": "to be at least", "lte": "to be at most"}[c.op] +
		" " + lang.Clip(operand, mostShown)
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
