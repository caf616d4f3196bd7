package mcppool

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/workspace"
)

// Builtin is a server of the program around the pool: an MCP server in this process, or Go functions, which cost a tenth of that. Its
// annotations are believed and its tools need no approval: they are this program's own. In all else it is like any MCP server.
type Builtin struct {
	// Open makes an MCP server for each connection; the closer, which may be nil, is called when the connection ends.
	Open func() (*server.MCPServer, io.Closer, error)
	// Tools are functions, in the place of Open.
	Tools []Func
}

// openers are all built-in MCP servers by name.
func openers(own map[string]Builtin) map[string]mcp.OpenBuiltin {
	open := map[string]mcp.OpenBuiltin{registry.BuiltinWorkspace: openWorkspace}
	for name, builtin := range own {
		if builtin.Open == nil {
			continue
		}
		open[name] = func(string) (*server.MCPServer, io.Closer, error) {
			s, closer, err := builtin.Open()
			if closer == nil {
				closer = io.NopCloser(nil)
			}
			if err == nil && s == nil {
				err = fmt.Errorf("the built-in MCP server %q made none", name)
			}
			return s, closer, err
		}
	}
	return open
}

// functions are all built-in servers of functions.
func functions(own map[string]Builtin) (map[string][]mcp.Function, error) {
	all := make(map[string][]mcp.Function)
	for name, builtin := range own {
		for _, f := range builtin.Tools {
			t, err := f.tool()
			if err == nil && slices.ContainsFunc(all[name], func(other mcp.Function) bool { return other.Name == t.Name }) {
				err = errors.New("there is another of that name")
			}
			if err != nil {
				return nil, fmt.Errorf("the tool %q of the built-in server %q cannot be offered: %w", f.Name, name, err)
			}
			all[name] = append(all[name], t)
		}
	}
	return all, nil
}

func openWorkspace(root string) (*server.MCPServer, io.Closer, error) {
	w, err := workspace.NewServer(root)
	if err != nil {
		return nil, nil, err
	}
	return w.MCP(), w, nil
}

// builtinServers are the servers of the program around the pool, by name.
func builtinServers(own map[string]Builtin) ([]*registry.Server, error) {
	var servers []*registry.Server
	for _, name := range slices.Sorted(maps.Keys(own)) {
		switch {
		case !registry.IsSlug(name):
			return nil, fmt.Errorf("the name of the built-in MCP server %q is no id; use lower-case letters, digits, hyphens and underscores", name)
		case name == registry.BuiltinWorkspace:
			return nil, fmt.Errorf("the built-in MCP server %q is the pool's own; use another name", name)
		case own[name].Open == nil && len(own[name].Tools) == 0:
			return nil, fmt.Errorf("the built-in MCP server %q has neither a constructor nor tools", name)
		case own[name].Open != nil && len(own[name].Tools) > 0:
			return nil, fmt.Errorf("the built-in MCP server %q has a constructor and tools; give it one of the two", name)
		}
		servers = append(servers, builtinServer(name, ""))
	}
	return servers, nil
}

// workspaceServer is the built-in server that Config.Workspace asks for.
func workspaceServer(dir string) (*registry.Server, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("the workspace folder %s: %w", dir, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("the workspace folder cannot be used: %w; give an existing one", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("the workspace %s is not a folder; give a folder", root)
	}
	s := builtinServer(registry.BuiltinWorkspace, root)
	s.DisplayName, s.Description = "Workspace", "Looks at the files of "+root
	return s, nil
}

func builtinServer(name, root string) *registry.Server {
	return &registry.Server{
		UID: "builtin:" + name + ":" + root, ID: name, Builtin: &registry.Builtin{Name: name, Root: root},
		// Trusted goes without saying for built-in servers; it is set so that it shows.
		AutoActivate: true, Trusted: true, FromConfig: true, ByOperator: true,
	}
}
