package playbook

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/strictjson"
)

// maxDepth bounds how deep an input may be nested.
const maxDepth = 64

// member is a key that a mapping may have, with what reads its value.
type member struct {
	key  string
	read func(v *yaml.Node)
}

// members reads the members of a mapping and complains about unknown keys, about keys that occur twice, and about what is no mapping.
func (r *reader) members(n *yaml.Node, what string, known ...member) {
	if n.Kind != yaml.MappingNode {
		r.wrong(n, what+" must have `key: value` lines")
		return
	}
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		at := slices.IndexFunc(known, func(m member) bool { return m.key == k.Value })
		switch {
		case slices.Contains(seen, k.Value):
			r.wrong(k, "`"+k.Value+"` is given twice")
		case at < 0:
			var keys []string
			for _, m := range known {
				keys = append(keys, m.key)
			}
			r.wrong(k, what+" has an unknown key `"+k.Value+"`; it can have "+strings.Join(keys, ", "))
		default:
			known[at].read(n.Content[i+1])
		}
		seen = append(seen, k.Value)
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
func (r *reader) object(n *yaml.Node) (string, []use) {
	if n.Kind != yaml.MappingNode {
		if n.ShortTag() != "!!null" {
			r.wrong(n, "`input` must have `key: value` lines")
		}
		return "{}", nil
	}
	var uses []use
	return r.json(n, 0, &uses), uses
}

// json writes a node as exact JSON, and collects the references in its strings unless uses is nil.
func (r *reader) json(n *yaml.Node, depth int, uses *[]use) string {
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
			items = append(items, r.json(item, depth+1, uses))
		}
		return strictjson.Array(items)
	case n.Kind == yaml.MappingNode:
		return r.mapping(n, depth, uses)
	}
	raw := r.scalar(n)
	if uses != nil && strictjson.Kind(raw) == "string" {
		*uses = append(*uses, r.refs(n, raw)...)
	}
	return raw
}

func (r *reader) mapping(n *yaml.Node, depth int, uses *[]use) string {
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
			o.Set(k.Value, r.json(v, depth+1, uses))
		}
	}
	return o.String()
}

// scalar writes a value as JSON: numbers with the digits that they have.
func (r *reader) scalar(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return strictjson.Quote(strings.ToValidUTF8(n.Value, "\uFFFD"))
	case "!!null":
		return "null"
	case "!!bool":
		return strings.ToLower(n.Value)
	case "!!int":
		if i, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimPrefix(n.Value, "+"), "_", ""), 0); ok {
			return i.String()
		}
	case "!!float":
		if f := float(n.Value); f != "" {
			return f
		}
		r.wrong(n, n.Value+" is no number that JSON has")
		return "null"
	}
	r.wrong(n, "this value has a type that JSON does not have ("+n.ShortTag()+"); put quotation marks around it")
	return "null"
}

// float writes a decimal as JSON has it; "" where it cannot be.
func float(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", "")
	sign := ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = "-", rest
	}
	if strings.HasPrefix(s, ".") {
		s = "0" + s
	}
	s = strings.TrimSuffix(s, ".")
	if !json.Valid([]byte(sign+s)) || strictjson.Kind(s) != "number" {
		return ""
	}
	return sign + s
}
