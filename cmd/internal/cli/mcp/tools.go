package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// ToolsCmd is `pawl mcp tools`.
type ToolsCmd struct {
	ID    string `arg:"" optional:"" complete:"tools" help:"The server, or server/tool to see one tool whole (default: all that are active)."`
	Query string `short:"q" placeholder:"WORDS" help:"Only tools that have all these words."`

	Quarantined bool `help:"Those that wait for an approval instead, because they are new or have changed."`
}

// Run lists tools.
func (c *ToolsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, tool, _ := strings.Cut(c.ID, "/")
	f, err := s.EnsureWorkspace(ctx, id)
	if err != nil {
		return err
	}
	switch {
	case tool != "" && c.Quarantined:
		return showQuarantined(ctx, u, s, f.Real(id), tool)
	case tool != "":
		return showTool(ctx, u, s, f.Real(id), tool)
	}
	ids := []string{f.Real(id)}
	if id == "" {
		f = s.KnownWorkspace(ctx)
		if ids, err = activeIDs(ctx, s); err != nil {
			return err
		}
	}
	if c.Quarantined {
		return quarantinedTools(ctx, u, s, f, ids, c.Query)
	}
	tools, held, failed := listTools(ctx, s, ids, c.Query)
	if id != "" && len(failed) > 0 {
		return oneError(u, failed)
	}
	if u.JSON {
		err = u.Document(&mcppoolv1.ListToolsResponse{Tools: tools, QuarantinedCount: held.sum()})
	} else {
		err = showTools(u, tools, f, len(held) > 0)
		noteQuarantined(u, s, ids, held)
	}
	return cmp.Or(err, oneError(u, failed))
}

func activeIDs(ctx context.Context, s *discover.Session) ([]string, error) {
	list, err := discover.All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: true})
	var ids []string
	for _, server := range list.GetMcpServers() {
		if !server.GetDisabled() {
			ids = append(ids, server.GetId())
		}
	}
	return ids, err
}

// listTools gathers tools of several servers, and how many of each are quarantined.
func listTools(ctx context.Context, s *discover.Session, ids []string, query string) (tools []*commonv1.Tool, held quarantine, failed []error) {
	held = quarantine{}
	failed = eachServer(ctx, s, ids, &mcppoolv1.ListToolsRequest{Query: query}, func(id string, list *mcppoolv1.ListToolsResponse) {
		tools = append(tools, list.GetTools()...)
		if n := list.GetQuarantinedCount(); n > 0 {
			held[id] = n
		}
	})
	return tools, held, failed
}

// eachServer lists the tools of several servers; one that fails does not hide the others.
func eachServer(ctx context.Context, s *discover.Session, ids []string, ask *mcppoolv1.ListToolsRequest, take func(id string, list *mcppoolv1.ListToolsResponse)) (failed []error) {
	for _, id := range ids {
		ask.McpId = id
		list, err := discover.All(ctx, s.Pool.ListTools, ask)
		if err != nil {
			failed = append(failed, named(id, err))
			continue
		}
		take(id, list)
	}
	return failed
}

func showTools(u *ui.UI, tools []*commonv1.Tool, f discover.Folder, held bool) error {
	if len(tools) == 0 && held {
		return nil // what is said of those says why
	}
	if len(tools) == 0 {
		u.Note("no tools; pawl mcp list shows the servers, pawl mcp activate ID lets you use one")
		return nil
	}
	t := u.Table("TOOL", "EFFECT", "WHAT")
	t.Mark(1, func(s string) string { return effectStyle(t.Style, s) })
	for _, tool := range tools {
		t.Row(f.Alias(tool.GetId()), ui.EffectName(tool.GetEffect()), summary(tool))
	}
	return t.Write(u.Out)
}

// summary is a tool's title, or the first sentence of its description; pawl mcp tools SERVER/TOOL shows it whole.
func summary(tool *commonv1.Tool) string {
	text, _, _ := strings.Cut(strings.TrimSpace(tool.GetDescription()), "\n")
	text, _, cut := strings.Cut(text, ". ")
	if cut {
		text += "."
	}
	return cmp.Or(text, tool.GetTitle())
}

func effectStyle(st ui.Style, text string) string {
	switch strings.TrimSpace(text) {
	case "destructive":
		return st.Red(text)
	case "write":
		return st.Yellow(text)
	}
	return st.Green(text)
}

// errNotListed says that a tool is not among those that the caller may use; whether it exists is not known.
var errNotListed = errors.New("the tool is not listed")

// findTool returns one tool of a server.
func findTool(ctx context.Context, s *discover.Session, id, name string) (*commonv1.Tool, error) {
	tools, held, failed := listTools(ctx, s, []string{id}, "")
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, t := range tools {
		if t.GetName() == name {
			return t, nil
		}
	}
	if held[id] > 0 {
		if q, err := findQuarantined(ctx, s, id, name); err == nil {
			return nil, ui.Errorf("%s/%s is quarantined: %s", id, name, quarantineReason(q)).
				Then("pawl mcp approve %s %s shows it, and asks", id, name)
		}
	}
	return nil, ui.WrapError(errNotListed, "%s offers you no tool %q: it has none of that name, or a rule keeps it from you", id, name).
		Then("pawl mcp tools %s lists those that you may call", id)
}

func showTool(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) error {
	tool, err := findTool(ctx, s, id, name)
	if err != nil {
		return err
	}
	return u.Show(tool, func() string { return toolText(u.OutStyle(), tool) })
}

// toolText shows one tool as a whole.
func toolText(st ui.Style, tool *commonv1.Tool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", st.Bold(ui.Line(tool.GetId())))
	effect := ui.EffectName(tool.GetEffect())
	if tool.GetIdempotent() {
		effect += ", idempotent"
	}
	fmt.Fprintf(&b, "  %s\n", st.Dim("effect "+effect+", risk at least "+ui.EnumName(tool.GetRiskFloor())))
	if text := strings.TrimSpace(tool.GetDescription()); text != "" {
		fmt.Fprintf(&b, "\n  %s\n", strings.ReplaceAll(ui.Text(text), "\n", "\n  "))
	}
	fmt.Fprintf(&b, "\n  input\n%s\n", ui.PrettyJSON(tool.GetInputSchemaJson(), "  "))
	if tool.GetOutputSchemaJson() != "" {
		fmt.Fprintf(&b, "\n  output\n%s\n", ui.PrettyJSON(tool.GetOutputSchemaJson(), "  "))
	}
	return b.String()
}
