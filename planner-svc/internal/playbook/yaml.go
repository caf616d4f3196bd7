package playbook

import (
	_ "embed"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"pawl.dev/services/schema"
	"pawl.dev/services/strictjson"
)

// maxDepth bounds how deep the values of a playbook may be nested.
const maxDepth = 64

//go:embed playbook.schema.json
var form string

var compiledForm = sync.OnceValues(func() (*schema.Schema, error) { return schema.Compile(form) })

// hints explain patterns and alternatives of the schema, by the last key of a problem's path.
var hints = map[string]string{
	"id":       "it begins with a letter, has only letters, digits, _ and -, and is not `goal`",
	"tool":     "it is the id of a tool, SERVER/NAME",
	"inputs":   "it has `name: {type: …}` lines, or is a JSON Schema of an object; names begin with a letter and have only letters, digits, _ and -",
	"expect":   "it is a list, such as `- { path: structured.count, gte: 1 }`",
	"attempts": "it counts the first attempt too",
	"parallel": "it is a list of branches, such as `- steps: [{tool: SERVER/NAME}]`",
	"path":     "it consists of names and indexes separated by dots, such as structured.files.0",
	"gte":      "it is a number, or a reference to one",
	"lte":      "it is a number, or a reference to one",
}

// checkForm checks a playbook against the published schema.
func (r *reader) checkForm(root *yaml.Node, raw string) {
	published, err := compiledForm()
	if err == nil {
		err = published.Validate(raw)
	}
	var wrong *schema.Invalid
	switch {
	case errors.As(err, &wrong):
		for _, p := range wrong.Problems {
			r.addFormProblem(root, p)
		}
	case err != nil:
		r.addProblem(root, err.Error())
	}
}

// addFormProblem adds a problem that the schema has found, with the line of the wrong value or of the unknown key.
func (r *reader) addFormProblem(root *yaml.Node, p schema.Problem) {
	n, place, last := root, "the playbook", ""
	for i, key := range strings.Split(p.Pointer, "/")[1:] {
		switch at, err := strconv.Atoi(key); {
		case i == 0:
			place = key
		case i == 1 && err == nil:
			place = "step " + strconv.Itoa(1+countSteps(n.Content[:at]))
		case i == 2:
			place += ": " + key
		default:
			place += "." + key
		}
		n, last = child(n, key), key
	}
	text := place + ": " + p.Message
	if hint := hints[last]; hint != "" {
		text += "; " + hint
	}
	message, _, _ := strings.Cut(p.Message, ", did you mean")
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if strings.Contains(message, strconv.Quote(n.Content[i].Value)) {
			n = n.Content[i]
		}
	}
	r.addProblem(n, text)
}

// countSteps returns how many steps items of `steps` have, those of their branches included.
func countSteps(list []*yaml.Node) (count int) {
	for _, item := range list {
		branches := items(child(item, "parallel"))
		if len(branches) == 0 {
			count++
		}
		for _, branch := range branches {
			count += countSteps(items(child(branch, "steps")))
		}
	}
	return count
}

// child returns the value of a mapping's key, or the item of a sequence at an index; a zero node if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	for i, item := range n.Content {
		if n.Kind == yaml.SequenceNode && strconv.Itoa(i) == key || n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == key {
			return item
		}
	}
	return &yaml.Node{}
}

// items returns the items of a sequence, none of any other node.
func items(n *yaml.Node) []*yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// json returns a node as JSON; numbers keep their digits. With refs, it checks the references in the node's strings.
func (r *reader) json(n *yaml.Node, depth int, refs bool) string {
	switch {
	case depth > maxDepth:
		r.addProblem(n, "this is nested too deeply")
		return "null"
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		r.addProblem(n, "anchors and aliases are not supported")
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
			r.addProblem(k, "keys must be strings; put quotation marks around this one")
		case o.Has(k.Value):
			r.addProblem(k, "`"+k.Value+"` is given twice")
		default:
			o.Set(k.Value, r.json(v, depth+1, refs))
		}
	}
	return o.String()
}

// scalar returns a value as JSON; a number keeps its digits.
func (r *reader) scalar(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return strictjson.Quote(strings.ToValidUTF8(n.Value, "\uFFFD"))
	case "!!null", "!!bool", "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return n.Value
		}
		var value any // YAML has further notations: ~, True, 0x1F, .5, +2, 1_000
		if err := n.Decode(&value); err == nil {
			if raw, err := strictjson.Marshal(value); err == nil {
				return raw
			}
		}
		r.addProblem(n, n.Value+" is not a number in JSON")
		return "null"
	}
	r.addProblem(n, "this value has a type that JSON does not have ("+n.ShortTag()+"); put quotation marks around it")
	return "null"
}
