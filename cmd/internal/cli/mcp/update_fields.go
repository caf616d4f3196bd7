package mcp

import (
	"maps"
	"slices"
	"strings"

	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// transport sets how the server is reached. A server may change from a program to an address, or back.
func (c *UpdateCmd) transport(s *mcppoolv1.McpServer, local bool) ([]string, error) {
	env, err := pairs("--env", c.Env)
	if err != nil {
		return nil, err
	}
	headers, err := pairs("--header", c.Header)
	if err != nil {
		return nil, err
	}
	fields, err := c.reach(s, local)
	if err != nil {
		return nil, err
	}
	switch {
	case s.GetStdio() == nil && (len(env) > 0 || c.Cwd != ""):
		return nil, ui.Usagef("--env and --cwd are for servers with a command").Then("pawl mcp update --help")
	case s.GetHttp() == nil && len(headers) > 0:
		return nil, ui.Usagef("--header is for servers with --url").Then("pawl mcp update --help")
	}
	if len(env) > 0 {
		s.GetStdio().Env = over(s.GetStdio().GetEnv(), env)
		fields = append(fields, "stdio.env")
	}
	if len(headers) > 0 {
		s.GetHttp().Headers = over(s.GetHttp().GetHeaders(), headers)
		fields = append(fields, "http.headers")
	}
	if c.Cwd != "" {
		s.GetStdio().Cwd = c.Cwd
		fields = append(fields, "stdio.cwd")
	}
	return fields, nil
}

// reach sets the program or the address.
func (c *UpdateCmd) reach(s *mcppoolv1.McpServer, local bool) ([]string, error) {
	switch {
	case c.URL != "" && len(c.Command) > 0:
		return nil, ui.Usagef("a server has a command or --url, not both").Then("pawl mcp update --help")
	case c.URL != "" && s.GetHttp() == nil:
		s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: c.URL}}
		return []string{"http"}, nil
	case c.URL != "":
		s.GetHttp().Url = c.URL
		return []string{"http.url"}, nil
	case len(c.Command) > 0:
		return c.program(s, local), nil
	}
	return nil, nil
}

// program sets what is started. As with add, it and its arguments mean this folder where it runs on this machine.
func (c *UpdateCmd) program(s *mcppoolv1.McpServer, local bool) []string {
	fields := []string{"stdio.command", "stdio.args"}
	if s.GetStdio() == nil {
		s.Transport, fields = &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{}}, []string{"stdio"}
	}
	t := s.GetStdio()
	t.Command, t.Args = c.Command[0], c.Command[1:]
	if local && c.Cwd == "" {
		t.Cwd = ""
		localise(s)
		fields = append(fields, "stdio.cwd")
	}
	return fields
}

// over is what there was with what is new in it. Values that are not shown (***) stand for those there were.
func over(old, now map[string]string) map[string]string {
	m := map[string]string{}
	maps.Copy(m, old)
	maps.Copy(m, now)
	return m
}

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
