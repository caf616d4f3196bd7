package mcp

import (
	"context"
	"errors"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/workspace"
)

// WorkspaceCmd is `pawl mcp workspace`.
type WorkspaceCmd struct {
	Dir string `arg:"" help:"The folder."`
}

// Run serves the folder until standard input ends.
func (c *WorkspaceCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	server, err := workspace.NewServer(c.Dir)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	err = server.ServeStdio(ctx, u.In, u.Out)
	if ctx.Err() != nil {
		err = nil // it was asked to end
	}
	return errors.Join(err, server.Close())
}
