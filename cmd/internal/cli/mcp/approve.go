package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// ApproveCmd is `pawl mcp approve`.
type ApproveCmd struct {
	Server string `arg:"" complete:"server" help:"The server, and the tool's name behind it; or both as server/tool."`
	Tool   string `arg:"" optional:"" help:"The tool."`
	Yes    bool   `short:"y" xor:"how" help:"Do not ask."`
	Hash   string `xor:"how" placeholder:"HASH" help:"Approve the definition with this hash, and no other, without showing it."`
}

// Run approves a tool.
func (c *ApproveCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, name := c.Server, c.Tool
	if name == "" {
		id, name, _ = strings.Cut(c.Server, "/")
	}
	if id == "" || name == "" {
		return ui.Usagef("%q names no tool", c.Server).Then("pawl mcp approve SERVER TOOL; pawl mcp tools %s --quarantined lists them", cmp.Or(id, "SERVER"))
	}
	f, err := s.MeantWorkspace(ctx, id)
	if err != nil {
		return err
	}
	hash := c.Hash
	if hash == "" {
		if hash, err = c.look(ctx, u, s, f.Real(id), name); err != nil {
			return err
		}
	}
	got, err := s.Pool.ApproveTool(ctx, &mcppoolv1.ApproveToolRequest{McpId: f.Real(id), Name: name, DefinitionHash: hash})
	if err != nil {
		return err
	}
	return u.Result(got, "%s is approved", ui.Line(f.Alias(got.GetTool().GetId())))
}

// look shows what is to be approved and returns its hash, once the person said yes.
func (c *ApproveCmd) look(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) (string, error) {
	q, err := findQuarantined(ctx, s, id, name)
	if err != nil {
		return "", err
	}
	hash := q.GetTool().GetDefinitionHash()
	if c.Yes && u.JSON {
		return hash, nil
	}
	// Beside the question: standard output has the result.
	if err := Quarantined(u.Err, u.ErrStyle(), q); err != nil {
		return "", ui.Errorf("show what changed: %v", err)
	}
	if c.Yes {
		return hash, nil
	}
	if !u.InTTY || !u.ErrTTY {
		return "", ui.Usagef("there is no terminal to ask at").
			Then("pawl mcp approve %s %s%s --hash %s approves what is shown above", id, name, s.Flags(), hash)
	}
	p := u.Prompter()
	yes, err := p.Confirm(ctx, fmt.Sprintf("  %s approve it?", p.Style.Yellow("?")))
	switch {
	case errors.Is(err, io.EOF) || err == nil && !yes:
		return "", ui.Errorf("%s/%s is not approved; it stays quarantined", id, name)
	case err != nil:
		return "", err
	}
	return hash, nil
}

// findQuarantined returns one quarantined tool of a server.
func findQuarantined(ctx context.Context, s *discover.Session, id, name string) (*mcppoolv1.QuarantinedTool, error) {
	held, failed := listQuarantined(ctx, s, []string{id}, "")
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, q := range held {
		if q.GetTool().GetName() == name {
			return q, nil
		}
	}
	return nil, ui.Errorf("%s has no quarantined tool %q", id, name).Then("pawl mcp tools %s --quarantined lists those", id)
}
