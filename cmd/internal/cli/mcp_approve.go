package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/prompt"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// MCPApproveCmd is `pawl mcp approve`.
type MCPApproveCmd struct {
	Server string `arg:"" help:"The server, and the tool's name behind it; or both as server/tool."`
	Tool   string `arg:"" optional:"" help:"The tool."`
	Yes    bool   `short:"y" xor:"how" help:"Do not ask."`
	Hash   string `xor:"how" placeholder:"HASH" help:"Approve the definition with this hash, and no other, without showing it."`
}

// Help is shown by --help.
func (MCPApproveCmd) Help() string {
	return `A tool that is new, or not the one that was approved, is quarantined: nobody can call it. What changed is shown, and exactly
that is approved; where the server offers something else by then, nothing is. Without a terminal to ask at, --yes or --hash says
that it is meant.

Examples:

    pawl mcp approve github create_issue
    pawl mcp approve github/create_issue --yes
    pawl mcp tools github --quarantined --json | jq -r '.quarantinedTools[].tool.definitionHash'
    pawl mcp approve github create_issue --hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`
}

// Run approves a tool.
func (c *MCPApproveCmd) Run(ctx context.Context, a *App, g *Globals) error {
	id, name := c.Server, c.Tool
	if name == "" {
		id, name, _ = strings.Cut(c.Server, "/")
	}
	if id == "" || name == "" {
		return exit.Usagef("%q names no tool", c.Server).Then("pawl mcp approve SERVER TOOL; pawl mcp tools %s --quarantined lists them", cmp.Or(id, "SERVER"))
	}
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		f, err := a.meantFolder(ctx, g, session, id)
		if err != nil {
			return err
		}
		hash := c.Hash
		if hash == "" {
			if hash, err = c.look(ctx, a, g, pool, f.real(id), name); err != nil {
				return err
			}
		}
		got, err := pool.ApproveTool(ctx, &mcppoolv1.ApproveToolRequest{McpId: f.real(id), Name: name, DefinitionHash: hash})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, got)
		}
		a.printf("%s\n", render.Line(f.alias(got.GetTool().GetId())+" is approved"))
		return nil
	})
}

// look shows what is to be approved and returns its hash, once the person said yes.
func (c *MCPApproveCmd) look(ctx context.Context, a *App, g *Globals, pool mcppoolv1.McpPoolServiceClient, id, name string) (string, error) {
	q, err := findQuarantined(ctx, pool, id, name)
	if err != nil {
		return "", err
	}
	hash := q.GetTool().GetDefinitionHash()
	if c.Yes && g.JSON {
		return hash, nil
	}
	// Beside the question: standard output has what came of it.
	if err := render.Quarantined(a.Console.Err, a.errStyle(), q); err != nil {
		return "", exit.Newf("show what changed: %v", err)
	}
	if c.Yes {
		return hash, nil
	}
	if !a.Console.InTTY || !a.Console.ErrTTY {
		return "", exit.Usagef("there is no terminal to ask at").
			Then("pawl mcp approve %s %s%s --hash %s approves what is shown above", id, name, g.again(), hash)
	}
	p := &prompt.Prompter{Lines: a.lines, Out: a.Console.Err, Style: a.errStyle(), Now: a.Now}
	yes, err := p.Confirm(ctx, fmt.Sprintf("  %s approve it?", p.Style.Yellow("?")))
	switch {
	case errors.Is(err, io.EOF) || err == nil && !yes:
		return "", exit.Newf("%s/%s is not approved; it stays quarantined", id, name)
	case err != nil:
		return "", err
	}
	return hash, nil
}

// findQuarantined returns one quarantined tool of a server.
func findQuarantined(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, id, name string) (*mcppoolv1.QuarantinedTool, error) {
	held, failed := listQuarantined(ctx, pool, []string{id}, "")
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, q := range held {
		if q.GetTool().GetName() == name {
			return q, nil
		}
	}
	return nil, exit.Newf("%s has no quarantined tool %q", id, name).Then("pawl mcp tools %s --quarantined lists those", id)
}
