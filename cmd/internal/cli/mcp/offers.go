package mcp

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// ResourcesCmd is `pawl mcp resources`.
type ResourcesCmd struct {
	ID        string `arg:"" complete:"server" help:"The server."`
	Templates bool   `help:"Addresses with places to fill in instead."`
}

// Run lists resources.
func (c *ResourcesCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	t := u.Table("ADDRESS", "TYPE", "WHAT")
	if c.Templates {
		list, err := discover.All(ctx, s.Pool.ListResourceTemplates, &mcppoolv1.ListResourceTemplatesRequest{McpId: c.ID})
		for _, r := range list.GetResourceTemplates() {
			t.Row(r.GetUriTemplate(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
		}
		return u.List(list, err, t, c.ID+" has no addresses to fill in")
	}
	list, err := discover.All(ctx, s.Pool.ListResources, &mcppoolv1.ListResourcesRequest{McpId: c.ID})
	for _, r := range list.GetResources() {
		t.Row(r.GetUri(), r.GetMimeType(), firstOf(r.GetTitle(), r.GetDescription(), r.GetName()))
	}
	return u.List(list, err, t, c.ID+" lists no resources; pawl mcp resources "+c.ID+" --templates shows addresses to fill in")
}

// firstOf is the first line of the first text that there is.
func firstOf(texts ...string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(cmp.Or(texts...)), "\n")
	return line
}

// ReadCmd is `pawl mcp read`.
type ReadCmd struct {
	ID  string `arg:"" complete:"server" help:"The server."`
	URI string `arg:"" help:"The resource's address."`
}

// Run reads a resource.
func (c *ReadCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	resource, err := s.Pool.ReadResource(ctx, &mcppoolv1.ReadResourceRequest{McpId: c.ID, Uri: c.URI})
	return u.Show(resource, err, func() string { return resourceText(u.OutTTY, resource.GetContents()) })
}

// PromptsCmd is `pawl mcp prompts`.
type PromptsCmd struct{ ServerArg }

// Run lists prompts.
func (c *PromptsCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	list, err := discover.All(ctx, s.Pool.ListPrompts, &mcppoolv1.ListPromptsRequest{McpId: c.ID})
	t := u.Table("PROMPT", "TAKES", "WHAT")
	for _, p := range list.GetPrompts() {
		t.Row(p.GetName(), takes(p), firstOf(p.GetTitle(), p.GetDescription()))
	}
	return u.List(list, err, t, c.ID+" has no prompts")
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

// PromptCmd is `pawl mcp prompt`.
type PromptCmd struct {
	ID   string   `arg:"" complete:"server" help:"The server."`
	Name string   `arg:"" help:"The prompt."`
	Args []string `arg:"" optional:"" name:"name=value" help:"What is filled in."`
}

// Run shows a prompt.
func (c *PromptCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	arguments := make(map[string]string, len(c.Args))
	for _, arg := range c.Args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return ui.Usagef("%q is not NAME=VALUE", arg).Then("pawl mcp prompts %s shows what the prompt takes", c.ID)
		}
		arguments[name] = value
	}
	prompt, err := s.Pool.GetPrompt(ctx, &mcppoolv1.GetPromptRequest{McpId: c.ID, Name: c.Name, Arguments: arguments})
	return u.Show(prompt, err, func() string { return promptText(u.OutStyle(), prompt) })
}

// resourceText is what is in a resource, part by part. Bytes are only named at a terminal (tty).
func resourceText(tty bool, parts []*mcppoolv1.Resource) string {
	var b strings.Builder
	for _, part := range parts {
		switch {
		case len(part.GetBlob()) > 0 && tty:
			fmt.Fprintf(&b, "[%s %s, %d bytes]\n", ui.Line(part.GetUri()), ui.Line(part.GetMimeType()), len(part.GetBlob()))
		case len(part.GetBlob()) > 0:
			b.Write(part.GetBlob())
		default:
			b.WriteString(strings.TrimRight(ui.Text(part.GetText()), "\n") + "\n")
		}
	}
	return b.String()
}

// promptText is the messages of a prompt, each behind its role.
func promptText(st ui.Style, prompt *mcppoolv1.GetPromptResponse) string {
	var b strings.Builder
	for i, m := range prompt.GetMessages() {
		if i > 0 {
			b.WriteString("\n")
		}
		text := ui.Text(contentText(m.GetContent()))
		b.WriteString(st.Bold(ui.Line(m.GetRole())+":") + "\n" + strings.TrimRight(text, "\n") + "\n")
	}
	return b.String()
}
