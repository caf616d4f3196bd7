package cli

import (
	"context"
	"errors"

	"pawl.dev/cmd/internal/exit"
	"pawl.dev/mcppool-svc/workspace"
)

// MCPWorkspaceCmd is `pawl mcp workspace`.
type MCPWorkspaceCmd struct {
	Dir string `arg:"" help:"The folder."`
}

// Help is shown by --help.
func (MCPWorkspaceCmd) Help() string {
	return `Other MCP clients can use it too: its tools read the folder and nothing outside it, and change nothing.

Examples:

    pawl mcp workspace ~/notes
    pawl mcp add notes --trusted -- pawl mcp workspace ~/notes`
}

// Run serves the folder until standard input ends.
func (c *MCPWorkspaceCmd) Run(ctx context.Context, a *App) error {
	server, err := workspace.NewServer(c.Dir)
	if err != nil {
		return exit.Newf("%v", err)
	}
	err = server.ServeStdio(ctx, a.Console.In, a.Console.Out)
	if ctx.Err() != nil {
		err = nil // it was asked to end
	}
	return errors.Join(err, server.Close())
}
