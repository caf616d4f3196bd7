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

// quarantine is how many tools of a server wait for an approval, by server.
type quarantine map[string]uint32

func (q quarantine) sum() uint32 {
	var n uint32
	for _, held := range q {
		n += held
	}
	return n
}

// noteQuarantined says which servers have tools that a list does not show.
func noteQuarantined(u *ui.UI, s *discover.Session, ids []string, held quarantine) {
	for _, id := range ids {
		if n := held[id]; n > 0 {
			u.Note("%d quarantined: pawl mcp tools %s --quarantined%s", n, id, s.Flags())
		}
	}
}

// listQuarantined gathers the quarantined tools of several servers.
func listQuarantined(ctx context.Context, s *discover.Session, ids []string, query string) (held []*mcppoolv1.QuarantinedTool, failed []error) {
	ask := &mcppoolv1.ListToolsRequest{Query: query, Quarantined: true}
	failed = eachServer(ctx, s, ids, ask, func(_ string, list *mcppoolv1.ListToolsResponse) {
		held = append(held, list.GetQuarantinedTools()...)
	})
	return held, failed
}

// quarantinedTools lists the tools that wait for an approval.
func quarantinedTools(ctx context.Context, u *ui.UI, s *discover.Session, f discover.Folder, ids []string, query string) error {
	held, failed := listQuarantined(ctx, s, ids, query)
	if u.JSON {
		err := u.Document(&mcppoolv1.ListToolsResponse{QuarantinedTools: held, QuarantinedCount: uint32(len(held))})
		return cmp.Or(err, oneError(u, failed))
	}
	if len(held) == 0 {
		if len(failed) == 0 {
			u.Note("no quarantined tools")
		}
		return oneError(u, failed)
	}
	t := u.Table("TOOL", "WHY", "WHAT")
	t.Mark(1, t.Style.Yellow)
	for _, q := range held {
		t.Row(f.Alias(q.GetTool().GetId()), whyQuarantined(q), cmp.Or(changedPlaces(q), summary(q.GetTool())))
	}
	err := t.Write(u.Out)
	// The tool's name is the server's choice: it is not for pasting into a shell.
	server := "SERVER"
	if len(ids) == 1 {
		server = ids[0]
	}
	u.Note("look and approve: pawl mcp approve %s TOOL%s", server, s.Flags())
	return cmp.Or(err, oneError(u, failed))
}

// changedPlaces are the first places that differ.
func changedPlaces(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionJson() == "" {
		return ""
	}
	const most = 3
	changes := q.GetChanges()
	if len(changes) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(changes[:most], ", "), len(changes)-most)
	}
	return strings.Join(changes, ", ")
}

// showQuarantined shows one quarantined tool as a whole.
func showQuarantined(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) error {
	q, err := findQuarantined(ctx, s, id, name)
	if err != nil {
		return err
	}
	return u.Show(q, func() string { return quarantined(u.OutStyle(), q) })
}

// quarantineReason says why a tool waits, in a sentence's end.
func quarantineReason(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "it is new"
	}
	return "it is not the one that was approved"
}

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
	f, err := s.EnsureWorkspace(ctx, id)
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
	u.Eprintf("%s", quarantined(u.ErrStyle(), q))
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
