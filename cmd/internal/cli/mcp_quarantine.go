package cli

import (
	"cmp"
	"context"
	"fmt"

	"pawl.dev/cmd/internal/render"
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
func (a *App) noteQuarantined(g *Globals, ids []string, held quarantine) {
	for _, id := range ids {
		if n := held[id]; n > 0 {
			a.note(fmt.Sprintf("%d quarantined: pawl mcp tools %s --quarantined%s", n, id, g.again()))
		}
	}
}

// listQuarantined gathers the quarantined tools of several servers.
func listQuarantined(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, ids []string, query string) (held []*mcppoolv1.QuarantinedTool, failed []error) {
	ask := &mcppoolv1.ListToolsRequest{Query: query, Quarantined: true}
	failed = eachPage(ctx, pool, ids, ask, func(_ string, list *mcppoolv1.ListToolsResponse) {
		held = append(held, list.GetQuarantinedTools()...)
	})
	return held, failed
}

// quarantinedTools lists the tools that wait for an approval.
func (a *App) quarantinedTools(ctx context.Context, g *Globals, pool mcppoolv1.McpPoolServiceClient, f folder, ids []string, query string) error {
	held, failed := listQuarantined(ctx, pool, ids, query)
	if g.JSON {
		err := render.JSONDocument(a.Console.Out, &mcppoolv1.ListToolsResponse{QuarantinedTools: held, QuarantinedCount: uint32(len(held))})
		return cmp.Or(err, oneError(a, failed))
	}
	if len(held) == 0 {
		if len(failed) == 0 {
			a.note("no quarantined tools")
		}
		return oneError(a, failed)
	}
	t := a.table()
	t.Mark(1, t.Style.Yellow)
	t.Row("TOOL", "WHY", "WHAT")
	for _, q := range held {
		t.Row(f.alias(q.GetTool().GetId()), render.WhyQuarantined(q), cmp.Or(changedPlaces(q), summary(q.GetTool())))
	}
	err := t.Write(a.Console.Out)
	// The tool's name is the server's choice: it is not for pasting into a shell.
	server := "SERVER"
	if len(ids) == 1 {
		server = ids[0]
	}
	a.note(fmt.Sprintf("look and approve: pawl mcp approve %s TOOL%s", server, g.again()))
	return cmp.Or(err, oneError(a, failed))
}

// changedPlaces are the first places that differ.
func changedPlaces(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionJson() == "" {
		return ""
	}
	const most = 3
	text := ""
	for i, at := range q.GetChanges() {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(q.GetChanges())-most)
		}
		if i > 0 {
			text += ", "
		}
		text += at
	}
	return text
}

// showQuarantined shows one quarantined tool as a whole.
func (a *App) showQuarantined(ctx context.Context, g *Globals, pool mcppoolv1.McpPoolServiceClient, id, name string) error {
	q, err := findQuarantined(ctx, pool, id, name)
	if err != nil {
		return err
	}
	if g.JSON {
		return render.JSONDocument(a.Console.Out, q)
	}
	return render.Quarantined(a.Console.Out, a.outStyle(), q)
}

// quarantineReason says why a tool waits, in a sentence's end.
func quarantineReason(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "it is new"
	}
	return "it is not the one that was approved"
}
