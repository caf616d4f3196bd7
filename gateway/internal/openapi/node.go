package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	"go.yaml.in/yaml/v3"
)

// A document is kept as YAML nodes: they keep the order of members, which people read and Go's maps lose.

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

// nodeOf makes a node of a Go value.
func nodeOf(v any) (*yaml.Node, error) {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return nil, err
	}
	return &n, nil
}

// get follows members by name; nil if none.
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

// text is the value of a scalar member; empty if none.
func text(n *yaml.Node, path ...string) string {
	if found := get(n, path...); found != nil {
		return found.Value
	}
	return ""
}

// members are those of a mapping, in their order.
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

// items are those of a sequence.
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
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
}

// remove takes a member out of a mapping.
func remove(n *yaml.Node, name string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = append(n.Content[:i], n.Content[i+2:]...)
			return
		}
	}
}

// merge puts the members of src into dst, mapping by mapping; everything else of src replaces what dst has.
func merge(dst, src *yaml.Node) {
	for name, value := range members(src) {
		have := member(dst, name)
		if have != nil && have.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode {
			merge(have, value)
			continue
		}
		set(dst, name, value)
	}
}

// toJSON writes a node as JSON, members in their order.
func toJSON(n *yaml.Node, buf *bytes.Buffer) error {
	switch n.Kind {
	case yaml.MappingNode:
		return mappingJSON(n, buf)
	case yaml.SequenceNode:
		buf.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := toJSON(item, buf); err != nil {
				return err
			}
		}
		buf.WriteByte(']')
		return nil
	case yaml.ScalarNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		return valueJSON(v, buf)
	default:
		return fmt.Errorf("line %d: aliases and documents within documents have no JSON", n.Line)
	}
}

func mappingJSON(n *yaml.Node, buf *bytes.Buffer) error {
	buf.WriteByte('{')
	first := true
	for name, value := range members(n) {
		if !first {
			buf.WriteByte(',')
		}
		first = false
		if err := valueJSON(name, buf); err != nil {
			return err
		}
		buf.WriteByte(':')
		if err := toJSON(value, buf); err != nil {
			return err
		}
	}
	buf.WriteByte('}')
	return nil
}

func valueJSON(v any, buf *bytes.Buffer) error {
	var one bytes.Buffer
	enc := json.NewEncoder(&one)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Write(bytes.TrimRight(one.Bytes(), "\n"))
	return nil
}
