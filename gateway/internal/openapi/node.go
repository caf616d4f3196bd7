package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// A document is kept as YAML nodes, because they keep the order of members, unlike Go's maps.

// parse reads one YAML document.
func parse(text []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("the document is not a mapping")
	}
	return doc.Content[0], nil
}

func scalar(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
}

func mapping(name string, value *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	set(n, name, value)
	return n
}

// ref returns a reference to a component, such as responses/Problem.
func ref(component string) *yaml.Node { return mapping("$ref", scalar("#/components/"+component)) }

// get returns the node at a path of member names; nil if none.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		if n = member(n, name); n == nil {
			return nil
		}
	}
	return n
}

func member(n *yaml.Node, name string) *yaml.Node {
	for key, value := range members(n) {
		if key == name {
			return value
		}
	}
	return nil
}

// text returns the value of the scalar at a path; empty if none.
func text(n *yaml.Node, path ...string) string {
	if found := get(n, path...); found != nil {
		return found.Value
	}
	return ""
}

// members iterates over the members of a mapping in their order.
func members(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// items returns the items of a sequence.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// set adds or replaces a member of a mapping.
func set(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, scalar(name), value)
}

// remove removes a member from a mapping.
func remove(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
			return
		}
	}
}

// merge merges src into dst, recursively for mappings; other values of src replace those of dst.
func merge(dst, src *yaml.Node) {
	for name, value := range members(src) {
		existing := member(dst, name)
		if existing != nil && existing.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode {
			merge(existing, value)
			continue
		}
		set(dst, name, value)
	}
}

// toJSON writes a node as JSON, members in their order.
func toJSON(n *yaml.Node, out *jsontext.Encoder) error {
	switch n.Kind {
	case yaml.MappingNode:
		err := out.WriteToken(jsontext.BeginObject)
		for name, value := range members(n) {
			err = errors.Join(err, out.WriteToken(jsontext.String(name)), toJSON(value, out))
		}
		return errors.Join(err, out.WriteToken(jsontext.EndObject))
	case yaml.SequenceNode:
		err := out.WriteToken(jsontext.BeginArray)
		for _, item := range n.Content {
			err = errors.Join(err, toJSON(item, out))
		}
		return errors.Join(err, out.WriteToken(jsontext.EndArray))
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		raw, err := json.Marshal(v)
		return errors.Join(err, out.WriteValue(raw))
	default:
		return fmt.Errorf("line %d: aliases and nested documents cannot be written as JSON", n.Line)
	}
}
