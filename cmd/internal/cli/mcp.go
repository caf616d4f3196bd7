package cli

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// MCPCmd is `pawl mcp`.
type MCPCmd struct {
	List       MCPListCmd       `cmd:"" group:"sub" help:"List MCP servers."`
	Show       MCPShowCmd       `cmd:"" group:"sub" help:"Show one MCP server."`
	Add        MCPAddCmd        `cmd:"" group:"sub" help:"Register an MCP server."`
	Update     MCPUpdateCmd     `cmd:"" group:"sub" help:"Change an MCP server; what is not named stays."`
	Remove     MCPRemoveCmd     `cmd:"" group:"sub" help:"Remove an MCP server."`
	Activate   MCPActivateCmd   `cmd:"" group:"sub" help:"Let your tasks use a server."`
	Deactivate MCPDeactivateCmd `cmd:"" group:"sub" help:"The contrary of activate."`
	Tools      MCPToolsCmd      `cmd:"" group:"sub" help:"List the tools of your servers, or of one."`
	Approve    MCPApproveCmd    `cmd:"" group:"sub" help:"Let a quarantined tool be used: one that is new or has changed."`
	Test       MCPTestCmd       `cmd:"" group:"sub" help:"Say what is wrong with a server, and what to do."`
	Logs       MCPLogsCmd       `cmd:"" group:"sub" help:"Show what a server's program wrote to stderr."`
	Login      MCPLoginCmd      `cmd:"" group:"sub" help:"Log in to a server that wants it."`
	Logout     MCPLogoutCmd     `cmd:"" group:"sub" help:"Forget the login to a server."`
	Call       MCPCallCmd       `cmd:"" group:"sub" help:"Call a tool."`
	Resources  MCPResourcesCmd  `cmd:"" group:"sub" help:"List the resources of a server."`
	Read       MCPReadCmd       `cmd:"" group:"sub" help:"Read a resource."`
	Prompts    MCPPromptsCmd    `cmd:"" group:"sub" help:"List the prompts of a server."`
	Prompt     MCPPromptCmd     `cmd:"" group:"sub" help:"Show a prompt with its places filled in."`
	Workspace  MCPWorkspaceCmd  `cmd:"" group:"sub" help:"Serve a folder as an MCP server on standard input and output."`
}

// withPool runs a command that needs the pool.
func (a *App) withPool(ctx context.Context, g *Globals, command func(context.Context, *discover.Session, mcppoolv1.McpPoolServiceClient) error) error {
	return a.withSession(ctx, g, func(ctx context.Context, session *discover.Session) error {
		return command(ctx, session, mcppoolv1.NewMcpPoolServiceClient(session))
	})
}

// allServers lists every server that the caller sees.
func allServers(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, activeOnly bool) ([]*mcppoolv1.McpServer, error) {
	var servers []*mcppoolv1.McpServer
	req := &mcppoolv1.ListMcpServersRequest{PageSize: 1000, ActiveOnly: activeOnly}
	for {
		list, err := pool.ListMcpServers(ctx, req)
		if err != nil {
			return nil, err
		}
		servers = append(servers, list.GetMcpServers()...)
		if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
			return servers, nil
		}
	}
}

// MCPListCmd is `pawl mcp list`.
type MCPListCmd struct {
	Active bool `help:"Only those that your tasks may use."`
}

// Help is shown by --help.
func (MCPListCmd) Help() string {
	return `Examples:

    pawl mcp list
    pawl mcp list --json | jq -r '.mcpServers[].id'`
}

// Run lists servers.
func (c *MCPListCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		servers, err := allServers(ctx, pool, c.Active)
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, &mcppoolv1.ListMcpServersResponse{McpServers: servers})
		}
		if len(servers) == 0 {
			a.note("no MCP servers; pawl mcp add registers one")
			return nil
		}
		return a.showServers(servers)
	})
}

func (a *App) showServers(servers []*mcppoolv1.McpServer) error {
	t := a.table()
	t.Row("ID", "ACTIVE", "CONNECTION", "WHAT")
	for _, s := range servers {
		t.Row(s.GetId(), activity(s), render.ConnectionName(s.GetState()), transportText(s))
		if s.GetLastError() != "" {
			t.Row("", "", "", "✗ "+render.Brief(s.GetId(), s.GetLastError()))
		}
	}
	return t.Write(a.Console.Out)
}

func activity(s *mcppoolv1.McpServer) string {
	switch {
	case s.GetDisabled():
		return "disabled"
	case s.GetActive():
		return "yes"
	}
	return "no"
}

// transportText says what a server is: its command line, its address or the folder it shows.
func transportText(s *mcppoolv1.McpServer) string {
	switch t := s.GetTransport().(type) {
	case *mcppoolv1.McpServer_Stdio:
		text := t.Stdio.GetCommand()
		for _, arg := range t.Stdio.GetArgs() {
			text += " " + arg
		}
		return text
	case *mcppoolv1.McpServer_Http:
		return t.Http.GetUrl()
	case *mcppoolv1.McpServer_Builtin:
		if t.Builtin.GetRoot() == "" {
			return "built in"
		}
		return "files of " + t.Builtin.GetRoot()
	}
	return ""
}

// MCPRemoveCmd is `pawl mcp remove`.
type MCPRemoveCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPRemoveCmd) Help() string {
	return `Calls that are running finish. Servers from a configuration file are removed by changing the file.

Examples:

    pawl mcp remove github`
}

// Run removes a server.
func (c *MCPRemoveCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		answer, err := pool.DeleteMcpServer(ctx, &mcppoolv1.DeleteMcpServerRequest{Id: c.ID})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, answer)
		}
		a.printf("%s is removed\n", c.ID)
		return nil
	})
}

// MCPActivateCmd is `pawl mcp activate`.
type MCPActivateCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPActivateCmd) Help() string {
	return `Examples:

    pawl mcp activate github`
}

// Run activates a server.
func (c *MCPActivateCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		server, err := pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: c.ID})
		return a.showActivity(g, server, err)
	})
}

// MCPDeactivateCmd is `pawl mcp deactivate`.
type MCPDeactivateCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPDeactivateCmd) Help() string {
	return `Your tasks no longer use the server; it stays registered.

Examples:

    pawl mcp deactivate github`
}

// Run deactivates a server.
func (c *MCPDeactivateCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		server, err := pool.DeactivateMcpServer(ctx, &mcppoolv1.DeactivateMcpServerRequest{Id: c.ID})
		return a.showActivity(g, server, err)
	})
}

func (a *App) showActivity(g *Globals, server *mcppoolv1.McpServer, err error) error {
	if err != nil {
		return err
	}
	if g.JSON {
		return render.JSONDocument(a.Console.Out, server)
	}
	word := map[bool]string{true: "active", false: "not active"}[server.GetActive()]
	a.printf("%s is %s\n", server.GetId(), word)
	return nil
}
