package mcp

import (
	"context"
	"errors"

	"pawl.dev/mcppool-svc/internal/registry"
)

// connectBuiltin opens a server in this process, one of its own per connection.
func (c *Connector) connectBuiltin(ctx context.Context, s *registry.Server) (*client, error) {
	open, ok := c.cfg.Builtins[s.Builtin.Name]
	if !ok {
		return nil, Errorf(Misconfigured, "MCP server %s: there is no built-in server %q", s.ID, s.Builtin.Name)
	}
	srv, closer, err := open(s.Builtin.Root)
	if err != nil {
		return nil, Errorf(Unavailable, "MCP server %s: opening %s: %w", s.ID, s.Builtin.Root, err)
	}
	asks := &inProcess{}
	t := &tap{Interface: newLocal(srv, asks), blind: true}
	conn := newClient(t, t, legacy, c.log, legacy.option())
	conn.direct, conn.workers, asks.conn = true, &c.workers, conn
	conn.of(s)
	conn.release = func() { _ = closer.Close() }
	if err := c.handshake(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
