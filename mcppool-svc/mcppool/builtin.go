package mcppool

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/mcpgo"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/mcppool-svc/workspace"
)

// Builtin opens an MCP server in this process, anew for each connection; the closer, which may be nil, is called when the
// connection ends. Its annotations are believed and its tools need no approval: they are this program's own.
type Builtin func() (*server.MCPServer, io.Closer, error)

// openers are all built-in servers by name.
func openers(own map[string]Builtin) map[string]mcpgo.OpenBuiltin {
	open := map[string]mcpgo.OpenBuiltin{spec.BuiltinWorkspace: openWorkspace}
	for name, builtin := range own {
		open[name] = func(string) (*server.MCPServer, io.Closer, error) {
			s, closer, err := builtin()
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

func openWorkspace(root string) (*server.MCPServer, io.Closer, error) {
	w, err := workspace.NewServer(root)
	if err != nil {
		return nil, nil, err
	}
	return w.MCP(), w, nil
}

// builtinServers are the servers of the program around the pool, by name.
func builtinServers(own map[string]Builtin) ([]*spec.Server, error) {
	var servers []*spec.Server
	for _, name := range slices.Sorted(maps.Keys(own)) {
		switch {
		case !spec.IsSlug(name):
			return nil, fmt.Errorf("the name of the built-in MCP server %q is no id; use lower-case letters, digits, hyphens and underscores", name)
		case name == spec.BuiltinWorkspace:
			return nil, fmt.Errorf("the built-in MCP server %q is the pool's own; use another name", name)
		case own[name] == nil:
			return nil, fmt.Errorf("the built-in MCP server %q has no constructor", name)
		}
		servers = append(servers, builtinServer(name, ""))
	}
	return servers, nil
}

// workspaceServer is the built-in server that Config.Workspace asks for.
func workspaceServer(dir string) (*spec.Server, error) {
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
	s := builtinServer(spec.BuiltinWorkspace, root)
	s.DisplayName, s.Description = "Workspace", "Looks at the files of "+root
	return s, nil
}

func builtinServer(name, root string) *spec.Server {
	return &spec.Server{
		UID: "builtin:" + name + ":" + root, ID: name, Builtin: &spec.Builtin{Name: name, Root: root},
		// Trusted goes without saying for built-in servers; it is set so that it shows.
		AutoActivate: true, Trusted: true, FromConfig: true, ByOperator: true,
	}
}
