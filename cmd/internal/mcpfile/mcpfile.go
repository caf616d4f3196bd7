// Package mcpfile reads the mcpServers JSON that users of MCP clients already have, as servers to register. It knows the
// format and no server.
package mcpfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// entry is one server as clients write it. What a client keeps beside (icons, prompts) is passed over.
type entry struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	Cwd      string            `json:"cwd"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	OAuth    *oauth            `json:"oauth"`
	Disabled bool              `json:"disabled"`
}

// oauth is how logins are made, as in the pool's own files.
type oauth struct {
	Grant        string   `json:"grant"`
	ClientID     string   `json:"clientId"`
	ClientSecret string   `json:"clientSecret"`
	Scopes       []string `json:"scopes"`
}

func (o *oauth) message() *mcppoolv1.OAuth {
	if o == nil {
		return nil
	}
	m := &mcppoolv1.OAuth{ClientId: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes}
	if o.Grant == "client_credentials" {
		m.Grant = mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS
	}
	return m
}

// Parse returns the servers of a file by name.
func Parse(raw []byte) ([]*mcppoolv1.McpServer, error) {
	var file struct {
		Servers map[string]entry `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("not the mcpServers format: %w", err)
	}
	if len(file.Servers) == 0 {
		return nil, errors.New("there are no mcpServers in it")
	}
	var servers []*mcppoolv1.McpServer
	ids := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		s, err := server(name, file.Servers[name])
		if err != nil {
			return nil, fmt.Errorf("server %q: %w", name, err)
		}
		if other, twice := ids[s.GetId()]; twice {
			return nil, fmt.Errorf("servers %q and %q would both have the id %s; rename one", other, name, s.GetId())
		}
		ids[s.GetId()] = name
		servers = append(servers, s)
	}
	return servers, nil
}

func server(name string, e entry) (*mcppoolv1.McpServer, error) {
	s := &mcppoolv1.McpServer{Id: id(name), Disabled: e.Disabled}
	if s.Id == "" {
		return nil, errors.New("its name has no letter or digit to make an id of")
	}
	if s.Id != name {
		s.DisplayName = name
	}
	switch {
	case e.Command != "" && e.URL != "":
		return nil, errors.New("it has both a command and a url; leave one out")
	case e.Command != "":
		s.Transport = &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: e.Command, Args: e.Args, Env: e.Env, Cwd: e.Cwd}}
	case e.URL != "":
		s.Transport = &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: e.URL, Headers: e.Headers, Sse: e.Type == "sse", Oauth: e.OAuth.message()}}
	default:
		return nil, errors.New("it has neither a command nor a url")
	}
	return s, nil
}

// id makes a server id of a name: lower-case letters, digits, - and _.
func id(name string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, strings.ToLower(name))
	return strings.Trim(slug[:min(len(slug), 64)], "-_")
}
