package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

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
	id, name, _ := strings.Cut(c.ID, "/")
	f, err := s.EnsureWorkspace(ctx, id)
	switch {
	case err != nil:
		return err
	case name != "" && c.Quarantined:
		q, err := findQuarantined(ctx, s, f.Real(id), name)
		return u.Show(q, err, func() string { return quarantined(u.OutStyle(), q) })
	case name != "":
		tool, err := findTool(ctx, s, f.Real(id), name)
		return u.Show(tool, err, func() string { return toolText(u.OutStyle(), tool) })
	}
	ids := []string{f.Real(id)}
	if id == "" {
		f = s.KnownWorkspace(ctx)
		if ids, err = activeIDs(ctx, s); err != nil {
			return err
		}
	}
	list, held, failed := listTools(ctx, s, ids, &mcppoolv1.ListToolsRequest{Query: c.Query, Quarantined: c.Quarantined})
	switch {
	case id != "" && len(failed) > 0:
	case u.JSON:
		err = u.Document(list)
	case c.Quarantined:
		err = showQuarantined(u, s, f, ids, list.GetQuarantinedTools(), len(failed) == 0)
	default:
		err = showTools(u, list, f)
		for _, id := range ids {
			if n := held[id]; n > 0 {
				u.Note("%d quarantined: pawl mcp tools %s --quarantined%s", n, id, s.Flags())
			}
		}
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

// listTools gathers tools of several servers, and how many of each are quarantined. A server that fails does not hide the others.
func listTools(ctx context.Context, s *discover.Session, ids []string, ask *mcppoolv1.ListToolsRequest) (all *mcppoolv1.ListToolsResponse, held map[string]uint32, failed []error) {
	all, held = &mcppoolv1.ListToolsResponse{}, map[string]uint32{}
	for _, id := range ids {
		ask.McpId = id
		list, err := discover.All(ctx, s.Pool.ListTools, ask)
		if err != nil {
			failed = append(failed, named(id, err))
			continue
		}
		held[id] = list.GetQuarantinedCount()
		list.QuarantinedCount += all.GetQuarantinedCount()
		proto.Merge(all, list)
	}
	return all, held, failed
}

func showTools(u *ui.UI, list *mcppoolv1.ListToolsResponse, f discover.Folder) error {
	if len(list.GetTools()) == 0 && list.GetQuarantinedCount() > 0 {
		return nil // what is said of those says why
	}
	t := u.Table("TOOL", "EFFECT", "WHAT")
	t.Mark(1, func(s string) string { return effectStyle(t.Style, s) })
	for _, tool := range list.GetTools() {
		t.Row(f.Alias(tool.GetId()), ui.EffectName(tool.GetEffect()), summary(tool))
	}
	return u.List(list, nil, t, "no tools; pawl mcp list shows the servers, pawl mcp activate ID lets you use one")
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
	list, held, failed := listTools(ctx, s, []string{id}, &mcppoolv1.ListToolsRequest{})
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, t := range list.GetTools() {
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
