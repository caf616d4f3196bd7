package playbook

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The published schema accepts what Parse accepts, and refuses unknown keys in every place.
func TestPublishedSchema(t *testing.T) {
	published, err := compiledForm()
	if err != nil {
		t.Fatal(err)
	}
	for book, valid := range map[string]bool{
		book: true,
		"steps: [{tool: a/b, id: x, description: d, input: {a: 1}, expect: [{path: message, exists: true, equals: 1, not_equals: 2, contains: x, matches: y, gte: 1, lte: 2}], on_error: continue, risk: high, if: goal == 'x', foreach: [1], retry: {attempts: 2}}]\nname: n\ngoal: g\nanswer: a": true,
		"steps: [{tool: a/b, if: true, foreach: \"['a']\"}]":                                   true,
		"steps: [{tool: a/b, retry: {attempts: 1}}]":                                           false,
		"steps: [{tool: a/b, retry: {}}]":                                                      false,
		"steps: [{tool: a/b, foreach: {a: 1}}]":                                                false,
		"inputs: {a: {type: string, default: x}, type: {type: integer}}\nsteps: [{tool: a/b}]": true,
		"inputs: {type: object, properties: {a: {type: string}}}\nsteps: [{tool: a/b}]":        true,
		"inputs: {}\nsteps: [{tool: a/b}]":                                                     false,
		"inputs: {a: string}\nsteps: [{tool: a/b}]":                                            false,
		"inputs: {a b: {type: string}}\nsteps: [{tool: a/b}]":                                  false,
		"steps: [{parallel: [{steps: [{tool: a/b, foreach: [1]}]}, {steps: [{tool: a/b}]}]}]":  true,
		"steps: [{parallel: [{steps: [{parallel: [{steps: [{tool: a/b}]}]}]}]}]":               false,
		"steps: [{parallel: [{tool: a/b}]}]":                                                   false,
		"steps: [{parallel: {steps: [{tool: a/b}]}}]":                                          false,
		"steps: [{parallel: [{steps: [{tool: a/b}]}], id: x}]":                                 false,
		"steps: []":                            false,
		"steps: [{tool: a/b, iff: x}]":         false,
		"steps: [{tool: x}]":                   false,
		"steps: [{tool: a/b, id: goal}]":       false,
		"steps: [{tool: a/b, risk: none}]":     false,
		"steps: [{tool: a/b, expect: [{}]}]":   false,
		"step: [{tool: a/b}]":                  false,
		"steps: [{tool: a/b, on_error: skip}]": false,
	} {
		var doc any
		if err := yaml.Unmarshal([]byte(book), &doc); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, parsed := Parse(book)
		if got := published.Validate(string(text)); (got == nil) != valid || (parsed == nil) != valid {
			t.Errorf("%s\nby the schema: %v\nby Parse: %v", strings.TrimSpace(book), got, parsed)
		}
	}
}
