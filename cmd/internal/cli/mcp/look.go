package mcp

import (
	"context"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// TestCmd is `pawl mcp test`.
type TestCmd struct {
	ID string `arg:"" complete:"server" help:"The server."`
}

// Run tests a server.
func (c *TestCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	f, err := s.MeantWorkspace(ctx, c.ID)
	if err != nil {
		return err
	}
	report, err := s.Pool.TestMcpServer(ctx, &mcppoolv1.TestMcpServerRequest{Id: f.Real(c.ID)})
	if err != nil {
		return err
	}
	if u.JSON {
		err = u.Document(report)
	} else {
		err = Checkup(u.Out, u.OutStyle(), u.OutColumns(), report)
	}
	if err != nil || report.GetOk() {
		return err
	}
	return ui.Errorf("%s does not work", c.ID)
}

// LogsCmd is `pawl mcp logs`.
type LogsCmd struct {
	ID string `arg:"" complete:"server" help:"The server."`
}

// Run shows what a server wrote.
func (c *LogsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	f, err := s.MeantWorkspace(ctx, c.ID)
	if err != nil {
		return err
	}
	log, err := s.Pool.GetMcpServerLog(ctx, &mcppoolv1.GetMcpServerLogRequest{Id: f.Real(c.ID)})
	if err != nil {
		return err
	}
	if u.JSON {
		return u.Document(log)
	}
	if log.GetStderr() == "" {
		server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: f.Real(c.ID)})
		if err != nil {
			return err
		}
		u.Note("%s", silence(c.ID, server, log))
	}
	return ServerLog(u.Out, u.OutStyle(), log)
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
type ShowCmd struct {
	ID string `arg:"" complete:"server" help:"The server."`
}

// Run shows a server.
func (c *ShowCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	f, err := s.MeantWorkspace(ctx, c.ID)
	if err != nil {
		return err
	}
	server, err := s.Pool.GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: f.Real(c.ID)})
	if err != nil {
		return err
	}
	if u.JSON {
		return u.Document(server)
	}
	return Server(u.Out, u.OutStyle(), server, transportText(server), u.Now())
}
