package cli_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

func text(s string) *mcppoolv1.Content {
	return &mcppoolv1.Content{Kind: &mcppoolv1.Content_Text{Text: s}}
}

// offer scripts what the server docs answers to a request; the server empty offers nothing.
func offer[Req interface {
	proto.Message
	GetMcpId() string
}, Resp proto.Message](w *world, answer func(Req) (Resp, error)) {
	clitest.On(w.pool.Script, func(req Req, next func() (Resp, error)) (Resp, error) {
		switch req.GetMcpId() {
		case "docs":
			return answer(req)
		case "empty":
			var none Resp
			return none.ProtoReflect().New().Interface().(Resp), nil
		}
		return next()
	})
}

func offersOf(w *world) {
	w.register(stdio("docs", "docs-server"), stdio("empty", "x"))
	offer(w, func(req *mcppoolv1.ListResourcesRequest) (*mcppoolv1.ListResourcesResponse, error) { // a page each
		if req.GetPageToken() == "" {
			return &mcppoolv1.ListResourcesResponse{NextPageToken: "logo", Resources: []*mcppoolv1.ResourceInfo{
				{Uri: "docs://readme", Name: "readme", Title: "The first thing to read", MimeType: "text/markdown", Size: 12},
			}}, nil
		}
		return &mcppoolv1.ListResourcesResponse{Resources: []*mcppoolv1.ResourceInfo{
			{Uri: "docs://" + req.GetPageToken(), Name: "logo", Description: "A picture.\nOf a wheel.", MimeType: "image/png"},
		}}, nil
	})
	offer(w, func(*mcppoolv1.ListResourceTemplatesRequest) (*mcppoolv1.ListResourceTemplatesResponse, error) {
		return &mcppoolv1.ListResourceTemplatesResponse{ResourceTemplates: []*mcppoolv1.ResourceTemplate{
			{UriTemplate: "docs://page/{n}", Name: "page", Description: "Any page."},
		}}, nil
	})
	offer(w, func(req *mcppoolv1.ReadResourceRequest) (*mcppoolv1.ReadResourceResponse, error) {
		r := &mcppoolv1.Resource{Uri: req.GetUri()}
		switch req.GetUri() {
		case "docs://readme":
			r.Text = "# Hello \x1b[31m\n"
		case "docs://logo":
			r.MimeType, r.Blob = "image/png", []byte{0x89, 'P', 'N', 'G', 0}
		default:
			return nil, errs.New(codes.NotFound, commonv1.ErrorReason_ERROR_REASON_RESOURCE_NOT_FOUND, "MCP server docs has no resource %q", req.GetUri())
		}
		return &mcppoolv1.ReadResourceResponse{Contents: []*mcppoolv1.Resource{r}}, nil
	})
	offer(w, func(*mcppoolv1.ListPromptsRequest) (*mcppoolv1.ListPromptsResponse, error) {
		return &mcppoolv1.ListPromptsResponse{Prompts: []*mcppoolv1.Prompt{{Name: "review", Title: "Review a file", Arguments: []*mcppoolv1.PromptArgument{
			{Name: "file", Required: true}, {Name: "focus"},
		}}}}, nil
	})
	offer(w, func(req *mcppoolv1.GetPromptRequest) (*mcppoolv1.GetPromptResponse, error) {
		return &mcppoolv1.GetPromptResponse{Messages: []*mcppoolv1.PromptMessage{
			{Role: "user", Content: text("Review " + req.GetArguments()["file"] + " for " + req.GetArguments()["focus"])},
			{Role: "assistant", Content: text("Show it to me.")},
		}}, nil
	})
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
	w.pawl("mcp", "resources", "empty").expect(t, 0, "", "empty lists no resources")
	w.pawl("mcp", "resources", "empty", "--templates").expect(t, 0, "", "has no resource templates")
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
