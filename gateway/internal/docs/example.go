package docs

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v3"
)

// origin stands for the gateway's address in examples; the page's script puts in the one it was loaded from.
const origin = "http://127.0.0.1:7410"

// bodyExample is the example that the document has, or one made of the schema; as indented JSON.
func bodyExample(doc, content *yaml.Node, inPath map[string]bool) (string, error) {
	example := member(content, "example")
	if example == nil {
		example = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for name, p := range members(member(resolve(doc, member(content, "schema")), "properties")) {
			if value := sample(doc, name, p); value != nil && !inPath[name] {
				set(example, name, value)
			}
		}
	}
	var compact, indented bytes.Buffer
	if err := toJSON(example, &compact); err != nil {
		return "", err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return "", err
	}
	return indented.String(), nil
}

// sample is a value that reads well for a field of that name; nil where the example is better without it.
func sample(doc *yaml.Node, name string, s *yaml.Node) *yaml.Node {
	if example := member(resolve(doc, s), "example"); example != nil {
		return example
	}
	switch name {
	case "toolId":
		return scalar("workspace/read_file")
	case "description":
		return scalar("Read the notes.")
	case "inputJson":
		return scalar(`{"path": "notes.md"}`)
	case "error":
		return scalar("notes.md: no such file")
	}
	return nil
}

// curl is the command line that calls the operation.
func curl(op operation, body string) string {
	withBody := op.BodyType != nil && body != "{}"
	command := "curl"
	if op.Streams {
		command += " -N"
	}
	if op.Method != http.MethodGet && (op.Method != http.MethodPost || !withBody) {
		command += " -X " + op.Method
	}
	parts := []string{command + " " + quoteURL(origin+op.Path)}
	if op.Streams {
		parts = append(parts, "-H 'Accept: text/event-stream'")
	}
	if withBody {
		parts = append(parts, "-H 'Content-Type: application/json'", "-d '"+strings.ReplaceAll(body, "'", `'\''`)+"'")
	}
	return strings.Join(parts, " \\\n  ")
}

// quoteURL puts a shell variable where the path has one: curl gives braces a meaning of its own.
func quoteURL(url string) string {
	before, rest, found := strings.Cut(url, "{")
	if !found {
		return url
	}
	name, after, _ := strings.Cut(rest, "}")
	return before + "$" + strings.ToUpper(name) + after
}
