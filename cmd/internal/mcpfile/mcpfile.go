// Package mcpfile reads the mcpServers JSON that users of MCP clients already have, as servers to register. It knows the
// format, with each key that the pool's own files may have (docs/mcp.md), and no server.
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

// Server is one server of a file.
type Server struct {
	*mcppoolv1.McpServer
	// Unknown are keys that have no meaning here, such as those that other clients keep beside.
	Unknown []string
}

// Parse returns the servers of a file by name. Relative folders in it count from dir.
func Parse(raw []byte, dir string) ([]Server, error) {
	var file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("not the mcpServers format: %w", err)
	}
	if len(file.Servers) == 0 {
		return nil, errors.New("there are no mcpServers in it")
	}
	var servers []Server
	ids := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		s, err := server(name, file.Servers[name], dir)
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

func server(name string, raw json.RawMessage, dir string) (Server, error) {
	f, err := fieldsOf(raw)
	if err != nil {
		return Server{}, err
	}
	s := &mcppoolv1.McpServer{Id: id(name)}
	if s.GetId() == "" {
		return Server{}, errors.New("its name has no letter or digit to make an id of")
	}
	if s.GetId() != name {
		s.DisplayName = name
	}
	for _, read := range []func(*mcppoolv1.McpServer) error{f.common, f.limits, f.policies, f.permissions, f.sharing, f.sampling} {
		if err := read(s); err != nil {
			return Server{}, err
		}
	}
	if err := f.transport(s, dir); err != nil {
		return Server{}, err
	}
	if err := f.roots(s, dir); err != nil {
		return Server{}, err
	}
	return Server{McpServer: s, Unknown: slices.Sorted(maps.Keys(f.left))}, nil
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
