package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
)

// mirrorable leaves out tools whose x-mcp-header annotations break their rules: where inputs are mirrored into headers (HTTP,
// 2026-07-28), the specification has clients do without such tools, and use the others.
func (c *client) mirrorable(ctx context.Context, tools []json.RawMessage) []json.RawMessage {
	if c.mirrors == nil {
		return tools
	}
	return slices.DeleteFunc(tools, func(raw json.RawMessage) bool {
		var tool mcp.Tool
		if json.Unmarshal(raw, &tool) != nil {
			return false // who reads the definition says what is wrong with it
		}
		why := mcp.ValidateParamHeaderAnnotations(&tool)
		if why != nil {
			c.mirrors.WarnContext(ctx, "a tool of an MCP server is left out: its x-mcp-header annotations are not valid", "tool", cut(tool.Name), "error", why)
		}
		return why != nil
	})
}

// mirrored says whether mcp-go is to see a page of tools: it keeps the definitions for the headers of calls, whole, for each
// connection. Hardly any have annotations; a server of which one has is shown to it from then on, since tools may lose them.
func (c *client) mirrored(page json.RawMessage) bool {
	if c.mirrors == nil {
		return false
	}
	if bytes.Contains(page, []byte("x-mcp-header")) || bytes.Contains(page, []byte(`\u`)) {
		c.annotated.Store(true)
	}
	return c.annotated.Load()
}
