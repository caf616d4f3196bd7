package cli

import (
	"cmp"
	"context"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// offerPage is how many entries of a list are asked for at once.
const offerPage = 1000

// MCPResourcesCmd is `pawl mcp resources`.
type MCPResourcesCmd struct {
	ID        string `arg:"" help:"The server."`
	Templates bool   `help:"Addresses with places to fill in instead."`
}

// Help is shown by --help.
func (MCPResourcesCmd) Help() string {
	return `Examples:

    pawl mcp resources docs
    pawl mcp resources docs --templates
    pawl mcp resources docs --json | jq -r '.resources[].uri'`
}

// Run lists resources.
func (c *MCPResourcesCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		if c.Templates {
			return c.templates(ctx, a, g, pool)
		}
		all := &mcppoolv1.ListResourcesResponse{}
		for req := (&mcppoolv1.ListResourcesRequest{McpId: c.ID, PageSize: offerPage}); ; {
			list, err := pool.ListResources(ctx, req)
			if err != nil {
				return err
			}
			all.Resources = append(all.Resources, list.GetResources()...)
			if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, all)
		}
		if len(all.GetResources()) == 0 {
			a.note(c.ID + " lists no resources; pawl mcp resources " + c.ID + " --templates shows addresses to fill in")
			return nil
		}
		t := a.table()
		t.Row("ADDRESS", "TYPE", "WHAT")
		for _, r := range all.GetResources() {
			t.Row(r.GetUri(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
		}
		return t.Write(a.Console.Out)
	})
}

func (c *MCPResourcesCmd) templates(ctx context.Context, a *App, g *Globals, pool mcppoolv1.McpPoolServiceClient) error {
	all := &mcppoolv1.ListResourceTemplatesResponse{}
	for req := (&mcppoolv1.ListResourceTemplatesRequest{McpId: c.ID, PageSize: offerPage}); ; {
		list, err := pool.ListResourceTemplates(ctx, req)
		if err != nil {
			return err
		}
		all.ResourceTemplates = append(all.ResourceTemplates, list.GetResourceTemplates()...)
		if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
	}
	if g.JSON {
		return render.JSONDocument(a.Console.Out, all)
	}
	if len(all.GetResourceTemplates()) == 0 {
		a.note(c.ID + " has no addresses to fill in")
		return nil
	}
	t := a.table()
	t.Row("ADDRESS", "TYPE", "WHAT")
	for _, r := range all.GetResourceTemplates() {
		t.Row(r.GetUriTemplate(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
	}
	return t.Write(a.Console.Out)
}

// firstOf is the first line of the first text that there is.
func firstOf(texts ...string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(texts...)), "\n")
	return line
}

// MCPReadCmd is `pawl mcp read`.
type MCPReadCmd struct {
	ID  string `arg:"" help:"The server."`
	URI string `arg:"" help:"The resource's address."`
}

// Help is shown by --help.
func (MCPReadCmd) Help() string {
	return `What is not text goes to a file or a pipe as it is, and is only named at a terminal.

Examples:

    pawl mcp read docs file:///README.md
    pawl mcp read camera image://last > last.png`
}

// Run reads a resource.
func (c *MCPReadCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		resource, err := pool.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: c.ID, Uri: c.URI})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, resource)
		}
		return render.Resource(a.Console.Out, a.Console.OutTTY, resource.GetContents())
	})
}

// MCPPromptsCmd is `pawl mcp prompts`.
type MCPPromptsCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPPromptsCmd) Help() string {
	return `Examples:

    pawl mcp prompts docs`
}

// Run lists prompts.
func (c *MCPPromptsCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		all := &mcppoolv1.ListPromptsResponse{}
		for req := (&mcppoolv1.ListPromptsRequest{McpId: c.ID, PageSize: offerPage}); ; {
			list, err := pool.ListPrompts(ctx, req)
			if err != nil {
				return err
			}
			all.Prompts = append(all.Prompts, list.GetPrompts()...)
			if req.PageToken = list.GetNextPageToken(); req.GetPageToken() == "" {
				break
			}
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, all)
		}
		if len(all.GetPrompts()) == 0 {
			a.note(c.ID + " has no prompts")
			return nil
		}
		t := a.table()
		t.Row("PROMPT", "TAKES", "WHAT")
		for _, p := range all.GetPrompts() {
			t.Row(p.GetName(), takes(p), firstOf(p.GetTitle(), p.GetDescription()))
		}
		return t.Write(a.Console.Out)
	})
}

// takes names a prompt's arguments, those in brackets that may be left out.
func takes(p *mcppoolv1.Prompt) string {
	names := make([]string, 0, len(p.GetArguments()))
	for _, a := range p.GetArguments() {
		name := a.GetName()
		if !a.GetRequired() {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// MCPPromptCmd is `pawl mcp prompt`.
type MCPPromptCmd struct {
	ID   string   `arg:"" help:"The server."`
	Name string   `arg:"" help:"The prompt."`
	Args []string `arg:"" optional:"" name:"name=value" help:"What is filled in."`
}

// Help is shown by --help.
func (MCPPromptCmd) Help() string {
	return `Examples:

    pawl mcp prompt docs review file=main.go "focus=error handling"`
}

// Run shows a prompt.
func (c *MCPPromptCmd) Run(ctx context.Context, a *App, g *Globals) error {
	arguments := make(map[string]string, len(c.Args))
	for _, arg := range c.Args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return exit.Usagef("%q is not NAME=VALUE", arg).Then("pawl mcp prompts %s shows what the prompt takes", c.ID)
		}
		arguments[name] = value
	}
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		prompt, err := pool.GetPrompt(ctx, &mcppoolv1.GetPromptRequest{McpId: c.ID, Name: c.Name, Arguments: arguments})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, prompt)
		}
		return render.Prompt(a.Console.Out, a.outStyle(), a.Console.OutTTY, prompt)
	})
}
