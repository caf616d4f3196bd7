package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// ToolsCmd is `pawl mcp tools`.
type ToolsCmd struct {
	ID    string `arg:"" optional:"" complete:"tools" help:"The server, or server/tool to show one tool in full (default: all active servers)."`
	Query string `short:"q" placeholder:"WORDS" help:"Only tools that contain all these words."`

	Quarantined bool `help:"Only tools that wait for an approval, because they are new or have changed."`
}

// Run lists tools.
func (c *ToolsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	id, name, _ := strings.Cut(c.ID, "/")
	if id == "" && c.ID != "" {
		return ui.Usagef("%q names no server", c.ID).Then("pawl mcp tools SERVER/TOOL; pawl mcp list shows the servers")
	}
	folder, err := s.EnsureWorkspace(ctx, id)
	switch {
	case err != nil:
		return err
	case name != "":
		return c.showTool(ctx, u, s, folder.Real(id), name)
	}
	ids := []string{folder.Real(id)}
	if id == "" {
		folder = s.KnownWorkspace(ctx)
		if ids, err = activeIDs(ctx, s); err != nil {
			return err
		}
	}
	list, quarantined, failed := listTools(ctx, s, ids, &mcppoolv1.ListToolsRequest{Query: c.Query, Quarantined: c.Quarantined})
	switch {
	case id != "" && len(failed) > 0:
	case u.JSON:
		err = u.Document(list)
	case c.Quarantined && len(list.GetQuarantinedTools()) == 0:
		if len(failed) == 0 {
			u.Note("%s", c.emptyNote(len(ids)))
		}
	case c.Quarantined:
		err = showQuarantined(u, s, folder, ids, list.GetQuarantinedTools())
	default:
		err = c.showTools(u, list, folder, len(ids))
		for _, id := range ids {
			if n := quarantined[id]; n > 0 {
				u.Note("%d quarantined: pawl mcp tools %s --quarantined%s", n, id, s.Flags())
			}
		}
	}
	return cmp.Or(err, reportAllButLast(u, failed))
}

// showTool prints one tool of a server in full.
func (c *ToolsCmd) showTool(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) error {
	if c.Quarantined {
		q, err := findQuarantined(ctx, s, id, name)
		return u.Show(q, err, func() string { return quarantinedText(u.OutStyle(), q) })
	}
	tool, err := findTool(ctx, s, id, name)
	return u.Show(tool, err, func() string { return toolText(u.OutStyle(), tool) })
}

// activeIDs returns the ids of the caller's active servers.
func activeIDs(ctx context.Context, s *discover.Session) ([]string, error) {
	list, err := discover.All(ctx, s.Pool.ListMcpServers, &mcppoolv1.ListMcpServersRequest{ActiveOnly: true})
	var ids []string
	for _, server := range list.GetMcpServers() {
		ids = append(ids, server.GetId())
	}
	return ids, err
}

// listTools lists the tools of several servers and counts the quarantined ones of each. A server that fails does not hide the others.
func listTools(ctx context.Context, s *discover.Session, ids []string, req *mcppoolv1.ListToolsRequest) (all *mcppoolv1.ListToolsResponse, quarantined map[string]uint32, failed []error) {
	all, quarantined = &mcppoolv1.ListToolsResponse{}, map[string]uint32{}
	for _, id := range ids {
		req.McpId = id
		list, err := discover.All(ctx, s.Pool.ListTools, req)
		if err != nil {
			failed = append(failed, withID(id, err))
			continue
		}
		quarantined[id] = list.GetQuarantinedCount()
		list.QuarantinedCount += all.GetQuarantinedCount()
		proto.Merge(all, list)
	}
	return all, quarantined, failed
}

// emptyNote returns the note for an empty list of the tools of some servers.
func (c *ToolsCmd) emptyNote(servers int) string {
	kind := "tool"
	if c.Quarantined {
		kind = "quarantined tool"
	}
	switch {
	case c.Query != "" && servers > 0:
		return fmt.Sprintf("no %s contains all the words of --query %q", kind, c.Query)
	case c.Quarantined:
		return "no quarantined tools"
	}
	return "no tools; pawl mcp list shows the servers, pawl mcp activate ID lets you use one"
}

func (c *ToolsCmd) showTools(u *ui.UI, list *mcppoolv1.ListToolsResponse, folder discover.Folder, servers int) error {
	if len(list.GetTools()) == 0 && list.GetQuarantinedCount() > 0 && c.Query == "" {
		return nil // the note about quarantined tools explains the empty list
	}
	t := u.Table("TOOL", "EFFECT", "WHAT")
	t.Mark(1, func(s string) string { return effectStyle(t.Style, s) })
	for _, tool := range list.GetTools() {
		t.Row(folder.Alias(tool.GetId()), ui.EffectName(tool.GetEffect()), summary(tool))
	}
	return u.List(list, nil, t, c.emptyNote(servers))
}

// summary returns the first sentence of a tool's description, or its title.
func summary(tool *commonv1.Tool) string {
	text, _, _ := strings.Cut(firstOf(tool.GetDescription(), tool.GetTitle())+" ", ". ")
	return strings.TrimSpace(text)
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

// errNotListed means that the pool does not list a tool for the caller. The tool may exist.
var errNotListed = errors.New("the tool is not listed")

// findTool returns one tool of a server.
func findTool(ctx context.Context, s *discover.Session, id, name string) (*commonv1.Tool, error) {
	list, quarantined, failed := listTools(ctx, s, []string{id}, &mcppoolv1.ListToolsRequest{})
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, t := range list.GetTools() {
		if t.GetName() == name {
			return t, nil
		}
	}
	if quarantined[id] > 0 {
		if q, err := findQuarantined(ctx, s, id, name); err == nil {
			return nil, ui.Errorf("%s/%s is quarantined (%s)", id, name, whyQuarantined(q)).
				Then("pawl mcp approve %s %s shows it and asks for your approval", id, name)
		}
	}
	return nil, ui.WrapError(errNotListed, "%s offers you no tool %q: it does not exist, or a rule denies it to you", id, name).
		Then("pawl mcp tools %s lists those that you may call", id)
}

// toolText returns a tool's effect, risk, description and schemas.
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

// showQuarantined lists the tools that wait for an approval.
func showQuarantined(u *ui.UI, s *discover.Session, folder discover.Folder, ids []string, quarantined []*mcppoolv1.QuarantinedTool) error {
	t := u.Table("TOOL", "WHY", "WHAT")
	t.Mark(1, t.Style.Yellow)
	for _, q := range quarantined {
		t.Row(folder.Alias(q.GetTool().GetId()), whyQuarantined(q), cmp.Or(changedPlaces(q), summary(q.GetTool())))
	}
	err := t.Write(u.Out)
	// A tool's name comes from the server, so it must not be pasted into a shell.
	server := "SERVER"
	if len(ids) == 1 {
		server = ids[0]
	}
	u.Note("review and approve one: pawl mcp approve %s TOOL%s", server, s.Flags())
	return err
}

// changedPlaces returns the first places where the definitions differ.
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

// ApproveCmd is `pawl mcp approve`.
type ApproveCmd struct {
	Server string `arg:"" complete:"server" help:"The server, followed by the tool's name; or both as server/tool."`
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
	folder, err := s.EnsureWorkspace(ctx, id)
	if err != nil {
		return err
	}
	hash := c.Hash
	if hash == "" {
		if hash, err = c.review(ctx, u, s, folder.Real(id), name); err != nil {
			return err
		}
	}
	got, err := s.Pool.ApproveTool(ctx, &mcppoolv1.ApproveToolRequest{McpId: folder.Real(id), Name: name, DefinitionHash: hash})
	return u.Result(got, err, "%s is approved", ui.Line(folder.Alias(got.GetTool().GetId())))
}

// review shows the definition, asks for approval, and returns the definition's hash.
func (c *ApproveCmd) review(ctx context.Context, u *ui.UI, s *discover.Session, id, name string) (string, error) {
	q, err := findQuarantined(ctx, s, id, name)
	if err != nil {
		return "", err
	}
	hash := q.GetTool().GetDefinitionHash()
	if c.Yes && u.JSON {
		return hash, nil
	}
	// The review goes to stderr, like the question; stdout has the result.
	u.Eprintf("%s", quarantinedText(u.ErrStyle(), q))
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
	list, _, failed := listTools(ctx, s, []string{id}, &mcppoolv1.ListToolsRequest{Quarantined: true})
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, q := range list.GetQuarantinedTools() {
		if q.GetTool().GetName() == name {
			return q, nil
		}
	}
	return nil, ui.Errorf("%s has no quarantined tool %q", id, name).Then("pawl mcp tools %s --quarantined lists those", id)
}

// maxChanges is the largest number of differences that the pool reports.
const maxChanges = 50

// quarantinedText returns the text that a person reviews before approving a tool: each change, or the whole definition if no approved one is
// known. It truncates nothing, because a hidden part would be approved unseen.
func quarantinedText(st ui.Style, q *mcppoolv1.QuarantinedTool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", st.Bold(ui.Line(q.GetTool().GetId())), st.Yellow(whyQuarantined(q)))
	if q.GetApproveTime() != nil {
		by := "accepted when first seen"
		if q.GetApprovedBy() != "" {
			by = "approved by " + ui.Line(q.GetApprovedBy())
		}
		fmt.Fprintf(&b, "  %s\n", st.Dim("before: "+by+", "+q.GetApproveTime().AsTime().UTC().Format("2006-01-02 15:04 UTC")))
	}
	if q.GetApprovedDefinitionJson() == "" {
		if q.GetApprovedDefinitionHash() != "" {
			fmt.Fprintf(&b, "  %s\n", st.Dim("that definition was too long to be kept, so the changes are unknown"))
		}
		fmt.Fprintf(&b, "\n  definition\n%s\n", ui.PrettyJSON(q.GetDefinitionJson(), "  "))
	} else {
		for _, at := range q.GetChanges() {
			fmt.Fprintf(&b, "\n  %s\n", ui.Line(cmp.Or(at, "the whole definition")))
			b.WriteString(side(st.Red, "-", q.GetApprovedDefinitionJson(), at))
			b.WriteString(side(st.Green, "+", q.GetDefinitionJson(), at))
		}
		if n := len(q.GetChanges()); n == 0 || n >= maxChanges { // 0 if only the JSON's spelling differs
			fmt.Fprintf(&b, "\n  %s\n%s\n", st.Yellow("these may not be all changes; the whole definition"), ui.PrettyJSON(q.GetDefinitionJson(), "  "))
		}
	}
	fmt.Fprintf(&b, "\n  %s\n", st.Dim("definition hash "+ui.Line(q.GetTool().GetDefinitionHash())))
	return b.String()
}

// whyQuarantined returns "new" or "changed".
func whyQuarantined(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "new"
	}
	return "changed"
}

// side returns one side of a difference, each line after its mark. A multi-line string is shown as lines, not as JSON.
func side(paint func(string) string, mark, definition, pointer string) string {
	raw, ok := resolve(definition, pointer)
	text := ui.PrettyJSON(raw, "")
	if content := strictjson.Content(raw); strings.HasPrefix(raw, `"`) && strings.Contains(strings.TrimSpace(content), "\n") {
		text = ui.Text(content)
	}
	if !ok {
		text = "(absent)"
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("    " + paint(mark+" "+line) + "\n")
	}
	return b.String()
}

// resolve returns the value at a JSON pointer (RFC 6901).
func resolve(raw, pointer string) (string, bool) {
	if pointer == "" {
		return raw, raw != ""
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		next, ok := strictjson.Member(raw, unescape.Replace(key))
		if items := slices.Collect(strictjson.Items(raw)); len(items) > 0 {
			i, err := strconv.Atoi(key)
			if ok = err == nil && i >= 0 && i < len(items); ok {
				next = items[i]
			}
		}
		if !ok {
			return "", false
		}
		raw = next
	}
	return raw, true
}
