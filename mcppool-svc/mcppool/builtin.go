package mcppool

import (
	"errors"
	"fmt"
	"io"
	"maps"
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

// builtins are the servers of the program around the pool, by name, and how each is reached.
type builtins struct {
	servers   []*registry.Server
	open      map[string]mcp.OpenBuiltin
	functions map[string][]mcp.Function
}

// readBuiltins checks the servers of the program around the pool, and adds the pool's own to the constructors.
func readBuiltins(own map[string]Builtin) (*builtins, error) {
	b := &builtins{open: map[string]mcp.OpenBuiltin{registry.BuiltinWorkspace: openWorkspace}, functions: make(map[string][]mcp.Function)}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		builtin := own[name]
		switch {
		case !registry.IsSlug(name):
			return nil, fmt.Errorf("the name of the built-in MCP server %q is no id; use lower-case letters, digits, hyphens and underscores", name)
		case name == registry.BuiltinWorkspace:
			return nil, fmt.Errorf("the built-in MCP server %q is the pool's own; use another name", name)
		case builtin.Open == nil && len(builtin.Tools) == 0:
			return nil, fmt.Errorf("the built-in MCP server %q has neither a constructor nor tools", name)
		case builtin.Open != nil && len(builtin.Tools) > 0:
			return nil, fmt.Errorf("the built-in MCP server %q has a constructor and tools; give it one of the two", name)
		case builtin.Open != nil:
			b.open[name] = opener(name, builtin)
		}
		for _, f := range builtin.Tools {
			t, err := f.tool()
			if err == nil && slices.ContainsFunc(b.functions[name], func(other mcp.Function) bool { return other.Name == t.Name }) {
				err = errors.New("there is another of that name")
			}
			if err != nil {
				return nil, fmt.Errorf("the tool %q of the built-in server %q cannot be offered: %w", f.Name, name, err)
			}
			b.functions[name] = append(b.functions[name], t)
		}
		b.servers = append(b.servers, builtinServer(name, ""))
	}
	return b, nil
}

func opener(name string, builtin Builtin) mcp.OpenBuiltin {
	return func(string) (*server.MCPServer, io.Closer, error) {
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

func openWorkspace(root string) (*server.MCPServer, io.Closer, error) {
	w, err := workspace.NewServer(root)
	if err != nil {
		return nil, nil, err
	}
	return w.MCP(), w, nil
}

// workspaceServer is the built-in server that Config.Workspace asks for.
func workspaceServer(dir string) (*registry.Server, error) {
	w, err := workspace.NewServer(dir)
	if err != nil {
		return nil, err
	}
	root := w.Root()
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("the workspace folder %s: %w", dir, err)
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
