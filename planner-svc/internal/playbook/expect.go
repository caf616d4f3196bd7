package playbook

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/jsonref"

	"pawl.dev/services/strictjson"
)

// operators are those of expectations, in the order in which they are checked.
var operators = []string{"exists", "equals", "not_equals", "contains", "matches", "gte", "lte"}

func (r *reader) expectations(n *yaml.Node) ([]Expectation, []use) {
	if n.Kind != yaml.SequenceNode {
		r.wrong(n, "`expect` must be a list, such as `- { path: structured.count, gte: 1 }`")
		return nil, nil
	}
	var all []Expectation
	var uses []use
	for _, item := range n.Content {
		e := Expectation{Line: item.Line}
		r.members(item, "an expectation", func(key string, v *yaml.Node) bool {
			if key == "path" {
				if e.Path = r.text(v, key); e.Path != "" && !pathPattern.MatchString(e.Path) {
					r.wrong(v, "`path` must be names and indexes with dots between them, such as structured.files.0")
				}
				return true
			}
			if !slices.Contains(operators, key) {
				return false
			}
			e.Checks = append(e.Checks, r.check(key, v, &uses))
			return true
		}, append([]string{"path"}, operators...)...)
		if item.Kind == yaml.MappingNode && len(e.Checks) == 0 {
			r.wrong(item, "an expectation needs one of "+strings.Join(operators, ", "))
		}
		slices.SortStableFunc(e.Checks, func(a, b check) int {
			return slices.Index(operators, a.op) - slices.Index(operators, b.op)
		})
		all = append(all, e)
	}
	return all, uses
}

func (r *reader) check(op string, n *yaml.Node, uses *[]use) check {
	c := check{op: op}
	var found []use
	c.operand = r.json(n, 0, &found)
	kind := strictjson.Kind(c.operand)
	switch op {
	case "exists":
		if kind != "boolean" {
			r.wrong(n, "`exists` must be true or false")
		}
	case "gte", "lte":
		if kind != "number" && len(found) == 0 {
			r.wrong(n, "`"+op+"` must be a number")
		}
	case "matches":
		found = nil
		pattern, err := regexp.Compile(strictjson.Content(c.operand))
		if err != nil || kind != "string" {
			r.wrong(n, "`matches` must be a regular expression (RE2 syntax)")
		}
		c.pattern = pattern
	}
	*uses = append(*uses, found...)
	return c
}

// holds checks an expectation of a step's output; the error says what was expected and what was there.
func (e *Expectation) holds(output string, lookup func(string) (string, bool)) error {
	const self = "output"
	ref := "${" + self + "}"
	if e.Path != "" {
		ref = "${" + self + "." + e.Path + "}"
	}
	value, err := jsonref.Resolve(strictjson.Quote(ref), func(name string) (string, bool) { return output, name == self })
	where := e.Path
	if where == "" {
		where = "the output"
	}
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
			return fmt.Errorf("expected %s %s, got %s", where, c.words(operand), shorten(value))
		}
	}
	return nil
}

// words says what a check demands.
func (c *check) words(operand string) string {
	return map[string]string{"equals": "to be", "not_equals": "not to be", "contains": "to contain", "matches": "to match", "gte": "to be at least", "lte": "to be at most"}[c.op] +
		" " + shorten(operand)
}

func (c *check) test(value, operand string) bool {
	switch c.op {
	case "equals":
		return equal(value, operand)
	case "not_equals":
		return !equal(value, operand)
	case "contains":
		return contains(value, operand)
	case "matches":
		return c.pattern.MatchString(strictjson.Content(value))
	}
	a, okA := numeric(value)
	b, okB := numeric(operand)
	if !okA || !okB {
		return false
	}
	if c.op == "gte" {
		return a.Cmp(b) >= 0
	}
	return a.Cmp(b) <= 0
}

// numeric reads a number exactly. Exponents are refused beyond what is worth computing.
func numeric(raw string) (*big.Rat, bool) {
	if strictjson.Kind(raw) != "number" || len(raw) > 400 {
		return nil, false
	}
	if i := strings.IndexAny(raw, "eE"); i >= 0 && len(raw)-i > 5 {
		return nil, false
	}
	return new(big.Rat).SetString(raw)
}

// equal compares JSON: numbers by value, objects without regard to order.
func equal(a, b string) bool {
	kind := strictjson.Kind(a)
	if kind != strictjson.Kind(b) {
		return false
	}
	switch kind {
	case "number":
		x, okX := numeric(a)
		y, okY := numeric(b)
		return okX && okY && x.Cmp(y) == 0 || a == b
	case "string":
		return strictjson.Content(a) == strictjson.Content(b)
	case "array":
		return slices.EqualFunc(slices.Collect(strictjson.Items(a)), slices.Collect(strictjson.Items(b)), equal)
	case "object":
		x, errX := strictjson.ParseObject(a)
		y, errY := strictjson.ParseObject(b)
		if errX != nil || errY != nil || len(x.Keys()) != len(y.Keys()) {
			return false
		}
		return !slices.ContainsFunc(x.Keys(), func(k string) bool {
			v, _ := x.Get(k)
			w, ok := y.Get(k)
			return !ok || !equal(v, w)
		})
	}
	return a == b
}

// contains looks for a part of a text, an element of an array, or the name of a member.
func contains(value, operand string) bool {
	switch strictjson.Kind(value) {
	case "string":
		return strings.Contains(strictjson.Content(value), strictjson.Content(operand))
	case "array":
		return slices.ContainsFunc(slices.Collect(strictjson.Items(value)), func(item string) bool { return equal(item, operand) })
	case "object":
		o, err := strictjson.ParseObject(value)
		return err == nil && o.Has(strictjson.Content(operand))
	}
	return false
}

func shorten(raw string) string {
	const most = 200
	runes := []rune(raw)
	if len(runes) <= most {
		return raw
	}
	return string(runes[:most]) + "…"
}
