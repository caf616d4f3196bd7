package api

import (
	"errors"
	"slices"

	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/identity"
)

// editRoots sets the folders that a server may ask for. Only operators may: the folders are on the pool's machine.
func editRoots(p identity.Principal, server *registry.Server, folders []string) error {
	roots, err := registry.ReadRoots(folders)
	var bad *registry.Invalid
	switch {
	case errors.As(err, &bad):
		return invalid("mcp_server."+bad.Field, bad.Problem)
	case err != nil:
		return err
	case slices.Equal(roots, server.Roots):
		return nil
	case !p.IsOperator():
		return denied("only an operator may say which folders an MCP server is told of (roots)")
	}
	server.Roots = roots
	return nil
}
