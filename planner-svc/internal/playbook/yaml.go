package playbook

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/strictjson"
)

// maxDepth bounds how deep an input may be nested.
const maxDepth = 64

// member is a key that a mapping may have, with the function that reads its value.
type member struct {
	key  string
	read func(v *yaml.Node)
}

// members reads the members of a mapping in the order of known, and reports unknown keys, duplicate keys, and nodes that are
// no mapping.
func (r *reader) members(n *yaml.Node, what string, known ...member) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, what+" must have `key: value` lines")
		return
	}
	keys := make([]string, len(known))
	for i, m := range known {
		keys[i] = m.key
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case values[k.Value] != nil:
			r.wrong(k, "`"+k.Value+"` is given twice")
		case !slices.Contains(keys, k.Value):
			r.wrong(k, what+" has an unknown key `"+k.Value+"`; it can have "+strings.Join(keys, ", "))
		default:
			values[k.Value] = n.Content[i+1]
		}
	}
	for _, m := range known {
		if v := values[m.key]; v != nil {
			m.read(v)
		}
	}
}

// text reads a scalar that is a text. Numbers and the like are taken as they are written.
func (r *reader) text(n *yaml.Node, key string) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		r.wrong(n, "`"+key+"` must be a text")
		return ""
	}
	if strings.TrimSpace(n.Value) == "" {
		r.wrong(n, "`"+key+"` is empty")
	}
	return n.Value
}

// object reads a step's input.
func (r *reader) object(n *yaml.Node) *strictjson.Object {
	if n.Kind == yaml.MappingNode {
		if o, err := strictjson.ParseObject(r.json(n, 0, true)); err == nil {
			return o
		}
	} else if n.ShortTag() != "!!null" {
		r.wrong(n, "`input` must have `key: value` lines")
	}
	return &strictjson.Object{}
}

// json writes a node as exact JSON. With refs it checks the references in its strings.
func (r *reader) json(n *yaml.Node, depth int, refs bool) string {
	switch {
	case depth > maxDepth:
		r.wrong(n, "this is nested too deeply")
		return "null"
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.wrong(n, "anchors and aliases are not supported")
		return "null"
	case n.Kind == yaml.SequenceNode:
		var items []string
		for _, item := range n.Content {
			items = append(items, r.json(item, depth+1, refs))
		}
		return strictjson.Array(items)
	case n.Kind == yaml.MappingNode:
		return r.mapping(n, depth, refs)
	}
	raw := r.scalar(n)
	if refs && strictjson.Kind(raw) == "string" {
		r.checkRefs(n, raw)
	}
	return raw
}

func (r *reader) mapping(n *yaml.Node, depth int, refs bool) string {
	o := &strictjson.Object{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		tag := k.ShortTag()
		switch {
		case k.Kind != yaml.ScalarNode || tag != "!!str" && tag != "!!int":
			r.wrong(k, "keys must be texts; put quotation marks around this one")
		case o.Has(k.Value):
			r.wrong(k, "`"+k.Value+"` is given twice")
		default:
			o.Set(k.Value, r.json(v, depth+1, refs))
		}
	}
	return o.String()
}

// scalar writes a value as JSON: numbers with the digits that they have.
func (r *reader) scalar(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return strictjson.Quote(strings.ToValidUTF8(n.Value, "\uFFFD"))
	case "!!null", "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return n.Value
		}
		var value any // YAML has more ways to write them: ~, True, 0x1F, .5, +2, 1_000
		if err := n.Decode(&value); err == nil {
			if raw, err := strictjson.Marshal(value); err == nil {
				return raw
			}
		}
		r.wrong(n, n.Value+" is no number that JSON has")
		return "null"
	}
	r.wrong(n, "this value has a type that JSON does not have ("+n.ShortTag()+"); put quotation marks around it")
	return "null"
}
