package mcp

import (
	"slices"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// unset takes away what --unset names, and returns the fields.
func (c *UpdateCmd) unset(s *mcppoolv1.McpServer) ([]string, error) {
	var fields []string
	for _, what := range c.Unset {
		field, err := takeAway(s, what)
		if err != nil {
			return nil, err
		}
		fields = append(fields, field)
	}
	return fields, nil
}

func takeAway(s *mcppoolv1.McpServer, what string) (field string, err error) {
	kind, name, _ := strings.Cut(what, ".")
	switch {
	case name != "" && slices.Contains([]string{"env", "header", "effect"}, kind):
		return takeNamed(s, kind, name)
	case what == "rules":
		s.Permissions = nil
		return "permissions", nil
	case what == "sampling":
		s.Sampling = nil
		return "sampling", nil
	case what == "roots":
		s.Roots = nil
		return "roots", nil
	case what == "cwd" && s.GetStdio() != nil:
		s.GetStdio().Cwd = ""
		return "stdio.cwd", nil
	case what == "scopes" && s.GetHttp().GetOauth() != nil:
		s.GetHttp().GetOauth().Scopes = nil
		return "http.oauth.scopes", nil
	case what == "oauth" && s.GetHttp() != nil:
		s.GetHttp().Oauth = nil
		return "http.oauth", nil
	case slices.Contains([]string{"cwd", "scopes", "oauth"}, what):
		return "", ui.Usagef("--unset %s: %s is not a server that has it", what, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	}
	return "", ui.Usagef("--unset %q: there is nothing of that name", what).
		Then("use env.NAME, header.NAME, effect.TOOL, cwd, rules, roots, sampling, scopes or oauth")
}

// takeNamed takes away what has a name of its own.
func takeNamed(s *mcppoolv1.McpServer, kind, name string) (field string, err error) {
	var there bool
	switch kind {
	case "env":
		field, there = "stdio.env", remove(s.GetStdio().GetEnv(), name)
	case "header":
		field, there = "http.headers", remove(s.GetHttp().GetHeaders(), name)
	default:
		field, there = "tool_policies", remove(s.GetToolPolicies(), name)
	}
	if !there {
		return "", ui.Errorf("--unset %s.%s: %s has none of that name", kind, name, s.GetId()).Then("pawl mcp show %s says what it has", s.GetId())
	}
	return field, nil
}

// remove says whether there was something to remove.
func remove[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	delete(m, key)
	return ok
}
