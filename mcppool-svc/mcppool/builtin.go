package mcppool

import (
	"cmp"
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

// Builtin is a server of the program that embeds the pool: an MCP server in this process, or Go functions. Its annotations are trusted
// and its tools are not pinned, because they are part of the program. Otherwise it is like any MCP server.
type Builtin struct {
	// Open makes an MCP server for each connection. The closer may be nil; it is closed when the connection ends.
	Open func() (*server.MCPServer, io.Closer, error)
	// Tools are Go functions, instead of Open.
	Tools []Func
}

// builtins are the servers of the program that embeds the pool, with their constructors or functions by name.
type builtins struct {
	servers   []*registry.Server
	open      map[string]mcp.OpenBuiltin
	functions map[string][]mcp.Function
}

// readBuiltins checks the servers of the program that embeds the pool, and adds the constructor of the workspace server.
func readBuiltins(own map[string]Builtin) (*builtins, error) {
	b := &builtins{open: map[string]mcp.OpenBuiltin{registry.BuiltinWorkspace: openWorkspace}, functions: make(map[string][]mcp.Function)}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		builtin := own[name]
		switch {
		case !registry.IsSlug(name):
			return nil, fmt.Errorf("the name of the built-in MCP server %q is not an id; use lower-case letters, digits, hyphens and underscores", name)
		case name == registry.BuiltinWorkspace:
			return nil, fmt.Errorf("the built-in MCP server %q is the pool's own; use another name", name)
		case builtin.Open == nil && len(builtin.Tools) == 0:
			return nil, fmt.Errorf("the built-in MCP server %q has neither a constructor nor tools", name)
		case builtin.Open != nil && len(builtin.Tools) > 0:
			return nil, fmt.Errorf("the built-in MCP server %q has both a constructor and tools; give it one of the two", name)
		case builtin.Open != nil:
			b.open[name] = opener(name, builtin)
		}
		for _, f := range builtin.Tools {
			t, err := f.tool()
			if err == nil && slices.ContainsFunc(b.functions[name], func(other mcp.Function) bool { return other.Name == t.Name }) {
				err = errors.New("another tool has the same name")
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
	return func(*registry.Builtin) (*server.MCPServer, io.Closer, error) {
		s, closer, err := builtin.Open()
		if closer == nil {
			closer = io.NopCloser(nil)
		}
		if err == nil && s == nil {
			err = fmt.Errorf("the constructor of the built-in MCP server %q returned nil", name)
		}
		return s, closer, err
	}
}

func openWorkspace(b *registry.Builtin) (*server.MCPServer, io.Closer, error) {
	var options workspace.Options
	if allowed := b.Workspace; allowed != nil {
		options = workspace.Options(*allowed)
		options.CommandTimeout = cmp.Or(options.CommandTimeout, registry.DefaultCommandTimeout)
	}
	w, err := workspace.NewServer(b.Root, options)
	if err != nil {
		return nil, nil, err
	}
	return w.MCP(), w, nil
}

// workspaceServer returns the built-in server for the folder Config.Workspace.
func workspaceServer(dir string) (*registry.Server, error) {
	w, err := workspace.NewServer(dir, workspace.Options{})
	if err != nil {
		return nil, err
	}
	root := w.Root()
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("the workspace folder %s: %w", dir, err)
	}
	s := builtinServer(registry.BuiltinWorkspace, root)
	s.DisplayName, s.Description = "Workspace", "Reads and searches the files of "+root
	return s, nil
}

func builtinServer(name, root string) *registry.Server {
	return &registry.Server{
		UID: "builtin:" + name + ":" + root, ID: name, Builtin: &registry.Builtin{Name: name, Root: root},
		// Built-in servers are always trusted; Trusted is set so that clients see it.
		AutoActivate: true, Trusted: true, FromConfig: true, ByOperator: true,
	}
}
