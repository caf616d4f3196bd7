package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// MCPTestCmd is `pawl mcp test`.
type MCPTestCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPTestCmd) Help() string {
	return `The server is connected to anew, beside the connection that your tasks use, and each step is looked at: its registration, the
secrets it refers to, its program or address, the handshake, its tools and their definitions. No tool is called. Ends with 1 where
something does not work; a warning is none.

Examples:

    pawl mcp test github
    pawl mcp test github --json | jq -r '.checks[] | select(.status != "STATUS_OK")'`
}

// Run tests a server.
func (c *MCPTestCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		f, err := a.meantFolder(ctx, g, session, c.ID)
		if err != nil {
			return err
		}
		report, err := pool.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: f.real(c.ID)})
		if err != nil {
			return err
		}
		if g.JSON {
			err = render.JSONDocument(a.Console.Out, report)
		} else {
			err = render.Checkup(a.Console.Out, a.outStyle(), a.columns(a.Console.OutTTY), report)
		}
		if err != nil || report.GetOk() {
			return err
		}
		return exit.Newf("%s does not work", c.ID)
	})
}

// MCPLogsCmd is `pawl mcp logs`.
type MCPLogsCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPLogsCmd) Help() string {
	return `Shows the end of what the server's program wrote to its stderr, over your connection: of the one that runs, or of the last one that
failed. Secrets that it was given are left out. Servers at an address have none here.

Examples:

    pawl mcp logs github
    pawl mcp logs github --json | jq -r .lastError`
}

// Run shows what a server wrote.
func (c *MCPLogsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		f, err := a.meantFolder(ctx, g, session, c.ID)
		if err != nil {
			return err
		}
		log, err := pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: f.real(c.ID)})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, log)
		}
		if log.GetStderr() == "" {
			server, err := pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: f.real(c.ID)})
			if err != nil {
				return err
			}
			a.note(silence(c.ID, server, log))
		}
		return render.ServerLog(a.Console.Out, a.outStyle(), a.Console.OutTTY, log)
	})
}

// silence says why there is nothing to show.
func silence(id string, server *mcppoolv1.McpServer, log *mcppoolv1.GetMcpServerLogResponse) string {
	switch {
	case server.GetHttp() != nil:
		return id + " is a server at an address; such servers have no stderr here; pawl mcp test " + id + " looks at what works"
	case log.GetConnected():
		return id + " is connected, and wrote nothing to stderr"
	case log.GetConnectTime() != nil:
		return id + " failed, and wrote nothing to stderr"
	}
	return id + " was not connected to yet; pawl mcp test " + id + " tries"
}

// MCPShowCmd is `pawl mcp show`.
type MCPShowCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPShowCmd) Help() string {
	return `Values of headers and of the environment are never shown.

Examples:

    pawl mcp show github
    pawl mcp show github --json | jq -r .state`
}

// Run shows a server.
func (c *MCPShowCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		f, err := a.meantFolder(ctx, g, session, c.ID)
		if err != nil {
			return err
		}
		server, err := pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: f.real(c.ID)})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, server)
		}
		return render.Server(a.Console.Out, a.outStyle(), server, transportText(server), a.Now())
	})
}
