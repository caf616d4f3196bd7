package mcp

import (
	"context"
	"errors"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	"pawl.dev/mcppool-svc/workspace"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// TestCmd is `pawl mcp test`.
type TestCmd struct{ ServerArg }

// Run tests a server.
func (c *TestCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, err := c.resolveID(ctx, s)
	if err != nil {
		return err
	}
	report, err := s.Pool.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: id})
	if err != nil {
		return err
	}
	err = u.Show(report, func() string { return checkup(u.OutStyle(), u.OutColumns(), report) })
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
	return u.Show(log, func() string { return serverLog(u.OutStyle(), log) })
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
	if err != nil {
		return err
	}
	return u.Show(server, func() string { return serverText(u.OutStyle(), server, u.Now()) })
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
