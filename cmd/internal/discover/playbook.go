package discover

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Playbook makes the tools of the server WorkspaceID in a playbook those of this folder's server. Everything else stays byte for byte; a text
// that is not YAML stays as it is, and the planner says what is wrong with it.
func (f Folder) Playbook(text string) string {
	var doc yaml.Node
	if f.id == WorkspaceID || f.id == "" || yaml.Unmarshal([]byte(text), &doc) != nil {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for _, tool := range slices.Backward(stepTools(&doc)) { // from the end, so that columns stay right
		line := []rune(lines[tool.Line-1])
		before, value := string(line[:tool.Column-1]), string(line[tool.Column-1:])
		name := strings.TrimLeft(value, `"'`)
		if rest, ok := strings.CutPrefix(name, WorkspaceID+"/"); ok {
			lines[tool.Line-1] = before + strings.TrimSuffix(value, name) + f.id + "/" + rest
		}
	}
	return strings.Join(lines, "")
}

// stepTools are the values of `tool` in all steps, in the order of the text.
func stepTools(n *yaml.Node) []*yaml.Node {
	var tools []*yaml.Node
	if n.Kind == yaml.DocumentNode {
		return stepTools(n.Content[0])
	}
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		switch {
		case key == "tool" && value.Kind == yaml.ScalarNode:
			tools = append(tools, value)
		case key == "steps" && value.Kind == yaml.SequenceNode:
			for _, step := range value.Content {
				tools = append(tools, stepTools(step)...)
			}
		}
	}
	return tools
}
