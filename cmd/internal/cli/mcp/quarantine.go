package mcp

import (
	"cmp"
	"context"
	"fmt"

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
		t.Row(f.Alias(q.GetTool().GetId()), WhyQuarantined(q), cmp.Or(changedPlaces(q), summary(q.GetTool())))
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
func showQuarantined(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) error {
	q, err := findQuarantined(ctx, s, id, name)
	if err != nil {
		return err
	}
	if u.JSON {
		return u.Document(q)
	}
	return Quarantined(u.Out, u.OutStyle(), q)
}

// quarantineReason says why a tool waits, in a sentence's end.
func quarantineReason(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "it is new"
	}
	return "it is not the one that was approved"
}
