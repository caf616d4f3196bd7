package cli

import (
	"cmp"
	"context"
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
}

// Help is shown by --help.
func (MCPToolsCmd) Help() string {
	return `Examples:

    pawl mcp tools
    pawl mcp tools workspace
    pawl mcp tools workspace/search_code
    pawl mcp tools --query "read file" --json`
}

// Run lists tools.
func (c *MCPToolsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, session *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		id, tool, _ := strings.Cut(c.ID, "/")
		f, err := a.meantFolder(ctx, g, session, id)
		if err != nil {
			return err
		}
		if tool != "" {
			return a.showTool(ctx, g, pool, f.real(id), tool)
		}
		ids := []string{f.real(id)}
		if id == "" {
			f = a.knownFolder(ctx, session)
			if ids, err = activeIDs(ctx, pool); err != nil {
				return err
			}
		}
		tools, failed := listTools(ctx, pool, ids, c.Query)
		if g.JSON {
			err = render.JSONDocument(a.Console.Out, &mcppoolv1.ListToolsResponse{Tools: tools})
		} else {
			err = a.showTools(tools, f)
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

// listTools gathers tools of several servers; one that fails does not hide the others.
func listTools(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, ids []string, query string) (tools []*commonv1.Tool, failed []error) {
	for _, id := range ids {
		req := &mcppoolv1.ListToolsRequest{McpId: id, PageSize: 1000, Query: query}
		for {
			list, err := pool.ListTools(ctx, req)
			if err != nil {
				failed = append(failed, named(id, err))
				break
			}
			tools = append(tools, list.GetTools()...)
			if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
	}
	return tools, failed
}

func (a *App) showTools(tools []*commonv1.Tool, f folder) error {
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

// findTool returns one tool of a server.
func findTool(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, id, name string) (*commonv1.Tool, error) {
	tools, failed := listTools(ctx, pool, []string{id}, "")
	if len(failed) > 0 {
		return nil, failed[0]
	}
	for _, t := range tools {
		if t.GetName() == name {
			return t, nil
		}
	}
	return nil, exit.Newf("%s has no tool %q", id, name).Then("pawl mcp tools %s lists its tools", id)
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
