// Package mcpfake helps tests to implement mcp.Client.
package mcpfake

import (
	"context"

	"pawl.dev/mcppool-svc/internal/mcp"
)

// Static implements the methods of mcp.Client that are trivial for a server that does not change.
type Static struct{}

// Probe implements mcp.Client.
func (Static) Probe(context.Context) error { return nil }

// OnChange implements mcp.Client.
func (Static) OnChange(func()) {}

// Rest implements mcp.Client.
func (Static) Rest() bool { return false }

// Wake implements mcp.Client.
func (Static) Wake() {}

// Settled implements mcp.Client.
func (Static) Settled() bool { return true }

// Stderr implements mcp.Client.
func (Static) Stderr() mcp.Stderr { return mcp.Stderr{} }
