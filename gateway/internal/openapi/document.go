package openapi

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"pawl.dev/gateway/internal/problem"
	"pawl.dev/gateway/internal/rest"
)

var (
	snakeCase = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)
	dotted    = regexp.MustCompile(`\{[a-z_]+\.([a-z_]+)\}`)
)

// build completes the generated document with the overlay and the routes.
func build(generated, overlay []byte, routes []*rest.Route, version string) (*yaml.Node, error) {
	doc, err := parse(generated)
	if err != nil {
		return nil, fmt.Errorf("read the generated OpenAPI document: %w", err)
	}
	extra, err := parse(overlay)
	if err != nil {
		return nil, fmt.Errorf("read the overlay of the OpenAPI document: %w", err)
	}
	tidyDescriptions(doc, fieldNames(doc))
	joinPaths(get(doc, "paths"))
	merge(doc, extra)
	if version != "" {
		merge(get(doc, "info"), mapping("version", scalar(version)))
	}
	operations := byID(doc)
	for _, rt := range routes {
		op := operations[operationID(rt)]
		if op == nil {
			return nil, fmt.Errorf("the OpenAPI document has no %s; generate it again from the protos", operationID(rt))
		}
		if err := complete(op, rt); err != nil {
			return nil, fmt.Errorf("complete %s: %w", operationID(rt), err)
		}
	}
	return doc, nil
}

// operationID returns the operation id that the generator gives to an RPC.
func operationID(rt *rest.Route) string {
	return fmt.Sprintf("%s_%s", rt.RPC.Parent().Name(), rt.RPC.Name())
}

// byID returns the operations by operation id.
func byID(doc *yaml.Node) map[string]*yaml.Node {
	operations := map[string]*yaml.Node{}
	for _, methods := range members(get(doc, "paths")) {
		for _, op := range members(methods) {
			operations[text(op, "operationId")] = op
		}
	}
	return operations
}

// tidyDescriptions adapts the descriptions, which are comments of the protos: it joins their lines and gives fields their JSON names.
func tidyDescriptions(n *yaml.Node, names map[string]bool) {
	for name, value := range members(n) {
		if name == "description" && value.Kind == yaml.ScalarNode {
			value.Value = inJSONNames(strings.Join(strings.Fields(value.Value), " "), names)
			value.Style = 0
		}
	}
	for _, child := range n.Content {
		tidyDescriptions(child, names)
	}
}

func inJSONNames(s string, names map[string]bool) string {
	return snakeCase.ReplaceAllStringFunc(s, func(word string) string {
		if name := problem.JSONPath(word); names[name] {
			return name
		}
		return word
	})
}

// fieldNames returns the names of all fields and parameters.
func fieldNames(doc *yaml.Node) map[string]bool {
	names := map[string]bool{}
	for _, s := range members(get(doc, "components", "schemas")) {
		for name := range members(member(s, "properties")) {
			names[name] = true
		}
	}
	for _, op := range byID(doc) {
		for _, p := range items(get(op, "parameters")) {
			names[text(p, "name")] = true
		}
	}
	return names
}

// joinPaths renames the path variable of updates, as in `/v1/agents/{agent.id}`, to the name in the other methods, as in
// `/v1/agents/{id}`: for OpenAPI the two are the same path, which may occur only once.
func joinPaths(paths *yaml.Node) {
	var names []string
	for path := range members(paths) {
		if dotted.MatchString(path) {
			names = append(names, path)
		}
	}
	for _, path := range names {
		methods := member(paths, path)
		joined := dotted.ReplaceAllString(path, "{$1}")
		variable := dotted.FindStringSubmatch(path)[1]
		for _, op := range members(methods) {
			for _, p := range items(get(op, "parameters")) {
				if text(p, "in") == "path" {
					set(p, "name", scalar(variable))
					set(p, "description", scalar("The id of the object to change."))
				}
			}
		}
		remove(paths, path)
		if existing := member(paths, joined); existing != nil {
			merge(existing, methods)
			continue
		}
		set(paths, joined, methods)
	}
}
