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

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/strictjson"
)

// showQuarantined lists the tools that wait for an approval. complete says that no server failed.
func showQuarantined(u *ui.UI, s *discover.Session, f discover.Folder, ids []string, held []*mcppoolv1.QuarantinedTool, complete bool) error {
	if len(held) == 0 {
		if complete {
			u.Note("no quarantined tools")
		}
		return nil
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
	return err
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
	return u.Result(got, err, "%s is approved", ui.Line(f.Alias(got.GetTool().GetId())))
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

// maxChanges is how many differences the pool names at most.
const maxChanges = 50

// quarantined shows what a person has to look at before a tool is approved: what changed, place by place, or all of it where
// there is nothing to compare with. Nothing is cut: what is not shown would be approved unseen.
func quarantined(st ui.Style, q *mcppoolv1.QuarantinedTool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", st.Bold(ui.Line(q.GetTool().GetId())), st.Yellow(whyQuarantined(q)))
	if q.GetApproveTime() != nil {
		by := "seen for the first time"
		if q.GetApprovedBy() != "" {
			by = "approved by " + ui.Line(q.GetApprovedBy())
		}
		fmt.Fprintf(&b, "  %s\n", st.Dim("before: "+by+", "+q.GetApproveTime().AsTime().UTC().Format("2006-01-02 15:04 UTC")))
	}
	if q.GetApprovedDefinitionJson() == "" {
		if q.GetApprovedDefinitionHash() != "" {
			fmt.Fprintf(&b, "  %s\n", st.Dim("that definition was too long to be kept, so what changed is not known"))
		}
		fmt.Fprintf(&b, "\n  definition\n%s\n", ui.PrettyJSON(q.GetDefinitionJson(), "  "))
	} else {
		for _, at := range q.GetChanges() {
			fmt.Fprintf(&b, "\n  %s\n", ui.Line(cmp.Or(at, "the whole definition")))
			b.WriteString(side(st.Red, "-", q.GetApprovedDefinitionJson(), at))
			b.WriteString(side(st.Green, "+", q.GetDefinitionJson(), at))
		}
		if n := len(q.GetChanges()); n == 0 || n >= maxChanges { // none where only the spelling differs
			fmt.Fprintf(&b, "\n  %s\n%s\n", st.Yellow("these may not be all changes; the whole definition"), ui.PrettyJSON(q.GetDefinitionJson(), "  "))
		}
	}
	fmt.Fprintf(&b, "\n  %s\n", st.Dim("definition hash "+ui.Line(q.GetTool().GetDefinitionHash())))
	return b.String()
}

// whyQuarantined says in a word why a tool waits.
func whyQuarantined(q *mcppoolv1.QuarantinedTool) string {
	if q.GetApprovedDefinitionHash() == "" {
		return "new"
	}
	return "changed"
}

// side is one side of a difference, each line behind its mark; a text of several lines is shown as such.
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

// resolve finds a place in a JSON text by its pointer (RFC 6901).
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
