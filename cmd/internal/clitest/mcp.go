package clitest

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// MCPTool is a tool that takes an object and returns a text. The server returns an error of Call as a tool error (isError).
type MCPTool struct {
	Name   string
	Schema string // of the input, as JSON
	Call   func(ctx context.Context, input map[string]any) (string, error)
}

// NewMCP returns an MCP server with these tools.
func NewMCP(tools ...MCPTool) *server.MCPServer {
	s := server.NewMCPServer("desk", "1")
	for _, t := range tools {
		s.AddTool(mcp.NewToolWithRawSchema(t.Name, "", json.RawMessage(t.Schema)), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text, err := t.Call(ctx, r.GetArguments())
			if err != nil {
				return mcp.NewToolResultError(err.Error()), nil
			}
			return mcp.NewToolResultText(text), nil
		})
	}
	return s
}
