package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// MCPToolsCmd is `pawl mcp tools`.
type MCPToolsCmd struct {
	ID    string `arg:"" optional:"" help:"The server, or server/tool to see one tool whole (default: all that are active)."`
	Query string `short:"q" placeholder:"WORDS" help:"Only tools that have all these words."`

	Quarantined bool `help:"Those that wait for an approval instead, because they are new or have changed."`
}

// Help is shown by --help.
func (MCPToolsCmd) Help() string {
	return `Examples:

    pawl mcp tools
    pawl mcp tools workspace
    pawl mcp tools workspace/search_code
    pawl mcp tools --query "read file" --json
    pawl mcp tools github --quarantined`
}

// Run lists tools.
func (c *MCPToolsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		id, tool, _ := strings.Cut(c.ID, "/")
		f, err := a.meantFolder(ctx, g, session, id)
		if err != nil {
			return err
		}
		switch {
		case tool != "" && c.Quarantined:
			return a.showQuarantined(ctx, g, pool, f.real(id), tool)
		case tool != "":
			return a.showTool(ctx, g, pool, f.real(id), tool)
		}
		ids := []string{f.real(id)}
		if id == "" {
			f = a.knownFolder(ctx, session)
			if ids, err = activeIDs(ctx, pool); err != nil {
				return err
			}
		}
		if c.Quarantined {
			return a.quarantinedTools(ctx, g, pool, f, ids, c.Query)
		}
		tools, held, failed := listTools(ctx, pool, ids, c.Query)
		if id != "" && len(failed) > 0 {
			return oneError(a, failed)
		}
		if g.JSON {
			err = render.JSONDocument(a.Console.Out, &mcppoolv1.ListToolsResponse{Tools: tools, QuarantinedCount: held.sum()})
		} else {
			err = a.showTools(tools, f, len(held) > 0)
			a.noteQuarantined(g, ids, held)
		}
		return cmp.Or(err, oneError(a, failed))
	})
}

// meantFolder is the current folder's server where the command line says `workspace`; it is registered where needed. On
// a server with keys, and on one elsewhere, the word is an id like any other.
func (a *App) meantFolder(ctx context.Context, g *Globals, session *discover.Session, id string) (folder, error) {
	if id != workspaceID || !session.Server().Local() || shared(g, session) {
		return folder{}, nil
	}
	return a.openFolder(ctx, session, "")
}

func activeIDs(ctx context.Context, pool mcppoolv1.McpPoolServiceClient) ([]string, error) {
	servers, err := allServers(ctx, pool, true)
	var ids []string
	for _, s := range servers {
		if !s.GetDisabled() {
			ids = append(ids, s.GetId())
		}
	}
	return ids, err
}

// listTools gathers tools of several servers, and how many of each are quarantined.
func listTools(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, ids []string, query string) (tools []*commonv1.Tool, held quarantine, failed []error) {
	held = quarantine{}
	failed = eachPage(ctx, pool, ids, &mcppoolv1.ListToolsRequest{Query: query}, func(id string, list *mcppoolv1.ListToolsResponse) {
		tools = append(tools, list.GetTools()...)
		if n := list.GetQuarantinedCount(); n > 0 {
			held[id] = n
		}
	})
	return tools, held, failed
}

// eachPage asks several servers the same; one that fails does not hide the others.
func eachPage(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, ids []string, ask *mcppoolv1.ListToolsRequest, take func(id string, list *mcppoolv1.ListToolsResponse)) (failed []error) {
	for _, id := range ids {
		req := &mcppoolv1.ListToolsRequest{McpId: id, PageSize: 1000, Query: ask.GetQuery(), Quarantined: ask.GetQuarantined()}
		for {
			list, err := pool.ListTools(ctx, req)
			if err != nil {
				failed = append(failed, named(id, err))
				break
			}
			take(id, list)
			if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
	}
	return failed
}

func (a *App) showTools(tools []*commonv1.Tool, f folder, held bool) error {
	if len(tools) == 0 && held {
		return nil // what is said of those says why
	}
	if len(tools) == 0 {
		a.note("no tools; pawl mcp list shows the servers, pawl mcp activate ID lets you use one")
		return nil
	}
	t := a.table()
	t.Mark(1, func(s string) string { return effectStyle(t.Style, s) })
	t.Row("TOOL", "EFFECT", "WHAT")
	for _, tool := range tools {
		t.Row(f.alias(tool.GetId()), render.EffectName(tool.GetEffect()), summary(tool))
	}
	return t.Write(a.Console.Out)
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

func effectStyle(st render.Style, text string) string {
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
func findTool(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, id, name string) (*commonv1.Tool, error) {
	tools, held, failed := listTools(ctx, pool, []string{id}, "")
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, t := range tools {
		if t.GetName() == name {
			return t, nil
		}
	}
	if held[id] > 0 {
		if q, err := findQuarantined(ctx, pool, id, name); err == nil {
			return nil, exit.Newf("%s/%s is quarantined: %s", id, name, quarantineReason(q)).
				Then("pawl mcp approve %s %s shows it, and asks", id, name)
		}
	}
	return nil, exit.Wrap(errNotListed, "%s offers you no tool %q: it has none of that name, or a rule keeps it from you", id, name).
		Then("pawl mcp tools %s lists those that you may call", id)
}

func (a *App) showTool(ctx context.Context, g *Globals, pool mcppoolv1.McpPoolServiceClient, id, name string) error {
	tool, err := findTool(ctx, pool, id, name)
	if err != nil {
		return err
	}
	if g.JSON {
		return render.JSONDocument(a.Console.Out, tool)
	}
	return render.Tool(a.Console.Out, a.outStyle(), tool)
}
