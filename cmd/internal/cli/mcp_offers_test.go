package cli_test

import (
	"testing"

	"pawl.dev/cmd/internal/clitest"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

func text(s string) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: s}}
}

func offersOf(w *world) {
	w.pool = clitest.NewPool(stdio("docs", "docs-server"), stdio("empty", "x"))
	w.pool.Offers = clitest.Offers{
		Resources: []*mcppoolv1.ResourceInfo{
			{Uri: "docs://readme", Name: "readme", Title: "The first thing to read", MimeType: "text/markdown", Size: 12},
			{Uri: "docs://logo", Name: "logo", Description: "A picture.\nOf a wheel.", MimeType: "image/png"},
		},
		Templates: []*mcppoolv1.ResourceTemplate{{UriTemplate: "docs://page/{n}", Name: "page", Description: "Any page."}},
		Contents: map[string]*mcppoolv1.ReadResourceResponse{
			"docs://readme": {Contents: []*mcppoolv1.Resource{{Uri: "docs://readme", Text: "# Hello \x1b[31m\n"}}},
			"docs://logo":   {Contents: []*mcppoolv1.Resource{{Uri: "docs://logo", MimeType: "image/png", Blob: []byte{0x89, 'P', 'N', 'G', 0}}}},
		},
		Prompts: []*mcppoolv1.Prompt{{Name: "review", Title: "Review a file", Arguments: []*mcppoolv1.PromptArgument{
			{Name: "file", Required: true}, {Name: "focus"}}}},
		OnPrompt: func(req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
			return &mcppoolv1.GetPromptResponse{Messages: []*mcppoolv1.PromptMessage{
				{Role: "user", Content: text("Review " + req.GetArguments()["file"] + " for " + req.GetArguments()["focus"])},
				{Role: "assistant", Content: text("Show it to me.")},
			}}, nil
		},
	}
}

func TestMCPResources(t *testing.T) {
	w := newWorld(t)
	offersOf(w)
	w.serveElsewhere()
	w.golden("mcp resources", w.pawl("mcp", "resources", "docs"))
	w.golden("mcp resources json", w.pawl("mcp", "resources", "docs", "--json"))
	w.golden("mcp resources templates", w.pawl("mcp", "resources", "docs", "--templates"))
	w.pawl("mcp", "resources", "docs", "--templates", "--json").expect(t, 0, `"uriTemplate": "docs://page/{n}"`, "")
	w.pawl("mcp", "resources", "nope").expect(t, 1, "", `there is no MCP server "nope"`)
	w.pawl("mcp", "read", "docs", "docs://readme").expect(t, 0, "# Hello ␛[31m\n", "") // in a pipe too
	w.pawl("mcp", "read", "docs", "docs://logo").expect(t, 0, "\x89PNG\x00", "")
	w.pawl("mcp", "read", "docs", "docs://logo", "--json").expect(t, 0, `"blob": "iVBORwA="`, "")
	w.pawl("mcp", "read", "docs", "docs://none").expect(t, 1, "", `no resource "docs://none"`)
	w.tty = true
	w.golden("mcp read", w.pawl("mcp", "read", "docs", "docs://readme"))
	w.pawl("mcp", "read", "docs", "docs://logo").expect(t, 0, "[docs://logo image/png, 5 bytes]\n", "")
	w.tty = false
	w.pool.Offers = clitest.Offers{}
	w.pawl("mcp", "resources", "empty").expect(t, 0, "", "empty lists no resources")
	w.pawl("mcp", "resources", "empty", "--templates").expect(t, 0, "", "no addresses to fill in")
	w.pawl("mcp", "prompts", "empty").expect(t, 0, "", "empty has no prompts")
}

func TestMCPPrompts(t *testing.T) {
	w := newWorld(t)
	offersOf(w)
	w.serveElsewhere()
	w.golden("mcp prompts", w.pawl("mcp", "prompts", "docs"))
	w.pawl("mcp", "prompts", "docs", "--json").expect(t, 0, `"required": true`, "")
	w.golden("mcp prompt", w.pawl("mcp", "prompt", "docs", "review", "file=main.go", "focus=a=b"))
	w.pawl("mcp", "prompt", "docs", "review", "--json").expect(t, 0, `"role": "assistant"`, "")
	w.pawl("mcp", "prompt", "docs", "review", "main.go").expect(t, 64, "", `"main.go" is not NAME=VALUE`)
}
