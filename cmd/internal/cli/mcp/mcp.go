// Package mcp has the commands for MCP servers: registering, trusting, logging in to and testing them, and calling their tools.
package mcp

import (
	"context"
	"errors"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/workspace"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// Cmd is `pawl mcp`.
type Cmd struct {
	List       ListCmd       `cmd:"" group:"sub" help:"List MCP servers."`
	Show       ShowCmd       `cmd:"" group:"sub" help:"Show one MCP server."`
	Add        AddCmd        `cmd:"" group:"sub" help:"Register an MCP server."`
	Update     UpdateCmd     `cmd:"" group:"sub" help:"Change an MCP server; what is not named stays."`
	Remove     RemoveCmd     `cmd:"" group:"sub" help:"Remove an MCP server."`
	Activate   ActivateCmd   `cmd:"" group:"sub" help:"Let your tasks use a server."`
	Deactivate DeactivateCmd `cmd:"" group:"sub" help:"The contrary of activate."`
	Tools      ToolsCmd      `cmd:"" group:"sub" help:"List the tools of your servers, or of one."`
	Approve    ApproveCmd    `cmd:"" group:"sub" help:"Let a quarantined tool be used: one that is new or has changed."`
	Test       TestCmd       `cmd:"" group:"sub" help:"Say what is wrong with a server, and what to do."`
	Logs       LogsCmd       `cmd:"" group:"sub" help:"Show what a server's program wrote to stderr."`
	Login      LoginCmd      `cmd:"" group:"sub" help:"Log in to a server that wants it."`
	Logout     LogoutCmd     `cmd:"" group:"sub" help:"Forget the login to a server."`
	Call       CallCmd       `cmd:"" group:"sub" help:"Call a tool."`
	Resources  ResourcesCmd  `cmd:"" group:"sub" help:"List the resources of a server."`
	Read       ReadCmd       `cmd:"" group:"sub" help:"Read a resource."`
	Prompts    PromptsCmd    `cmd:"" group:"sub" help:"List the prompts of a server."`
	Prompt     PromptCmd     `cmd:"" group:"sub" help:"Show a prompt with its arguments filled in."`
	Workspace  WorkspaceCmd  `cmd:"" group:"sub" help:"Serve a folder as an MCP server on standard input and output."`
}

// ListCmd is `pawl mcp list`.
type ListCmd struct {
	Active bool `help:"Only those that your tasks may use."`
	All    bool `help:"Also the unused workspace servers of other folders."`
}

// Run lists servers.
func (c *ListCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: c.Active})
	hidden := 0
	t := u.Table("ID", "ACTIVE", "CONNECTION", "WHAT")
	for _, server := range list.GetMcpServers() {
		if !c.All && discover.OtherFolder(server) && server.GetState() == mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE {
			hidden++
			continue
		}
		t.Row(server.GetId(), activity(server), ui.EnumName(server.GetState()), transportText(server))
		if server.GetLastError() != "" {
			t.Row("", "", "", "✗ "+ui.Brief(server.GetId(), server.GetLastError()))
		}
	}
	if hidden > 0 && !u.JSON {
		u.Note("--all also shows the workspace servers of other folders (%d); pawl mcp remove ID removes one", hidden)
	}
	return u.List(list, err, t, "no MCP servers; pawl mcp add registers one")
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
		return strings.Join(append([]string{t.Stdio.GetCommand()}, t.Stdio.GetArgs()...), " ")
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

// ServerArg names the server of a command.
type ServerArg struct {
	ID string `arg:"" complete:"server" help:"The server."`
}

// resolveID returns the server's id in the pool. The alias workspace stands for the current folder's server.
func (a ServerArg) resolveID(ctx context.Context, s *discover.Session) (string, error) {
	f, err := s.EnsureWorkspace(ctx, a.ID)
	return f.Real(a.ID), err
}

// RemoveCmd is `pawl mcp remove`.
type RemoveCmd struct{ ServerArg }

// Run removes a server.
func (c *RemoveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	answer, err := s.Pool.DeleteMcpServer(ctx, &mcppoolv1.DeleteMcpServerRequest{Id: c.ID})
	return u.Result(answer, err, "%s is removed", c.ID)
}

// ActivateCmd is `pawl mcp activate`.
type ActivateCmd struct{ ServerArg }

// Run activates a server.
func (c *ActivateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	server, err := s.Pool.ActivateMcpServer(ctx, &mcppoolv1.ActivateMcpServerRequest{Id: c.ID})
	return showActivity(u, server, err)
}

// DeactivateCmd is `pawl mcp deactivate`.
type DeactivateCmd struct{ ServerArg }

// Run deactivates a server.
func (c *DeactivateCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	server, err := s.Pool.DeactivateMcpServer(ctx, &mcppoolv1.DeactivateMcpServerRequest{Id: c.ID})
	return showActivity(u, server, err)
}

func showActivity(u *ui.UI, server *mcppoolv1.McpServer, err error) error {
	return u.Result(server, err, "%s is %s", server.GetId(), map[bool]string{true: "active", false: "not active"}[server.GetActive()])
}

// TestCmd is `pawl mcp test`.
type TestCmd struct{ ServerArg }

// Run tests a server.
func (c *TestCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.resolveID(ctx, s)
	if err != nil {
		return err
	}
	report, err := s.Pool.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: id})
	err = u.Show(report, err, func() string { return checkup(u.OutStyle(), u.OutColumns(), report) })
	if err != nil || report.GetOk() {
		return err
	}
	return ui.Errorf("%s does not work", c.ID)
}

// LogsCmd is `pawl mcp logs`.
type LogsCmd struct{ ServerArg }

// Run shows what a server wrote.
func (c *LogsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.resolveID(ctx, s)
	if err != nil {
		return err
	}
	log, err := s.Pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: id})
	if err != nil {
		return err
	}
	if log.GetStderr() == "" && !u.JSON {
		server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
		if err != nil {
			return err
		}
		u.Note("%s", silence(c.ID, server, log))
	}
	return u.Show(log, nil, func() string { return serverLog(u.OutStyle(), log) })
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

// ShowCmd is `pawl mcp show`.
type ShowCmd struct{ ServerArg }

// Run shows a server.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.resolveID(ctx, s)
	if err != nil {
		return err
	}
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: id})
	return u.Show(server, err, func() string { return serverText(u.OutStyle(), server, u.Now()) })
}

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
