package mcpgo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/mcppool-svc/internal/upstream"
)

// Bounds of what one server may offer.
const (
	maxTools     = 10_000
	maxToolBytes = 16 << 20
	maxPages     = 1_000
)

// ListTools implements upstream.Client.
func (c *client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	var tools []json.RawMessage
	var size int
	cursors := make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := c.listPage(ctx, cursor)
		if err != nil {
			return nil, err
		}
		for _, tool := range page {
			size += len(tool)
		}
		tools = append(tools, page...)
		if len(tools) > maxTools || size > maxToolBytes {
			return nil, &upstream.Error{Kind: upstream.TooLarge, Sent: true,
				Message: fmt.Sprintf("the server offers more than %d tools or %d MiB of definitions", maxTools, maxToolBytes>>20)}
		}
		if next == "" {
			return tools, nil
		}
		if cursors[next] || len(cursors) >= maxPages {
			return nil, protocolError("the server's tools/list has no end: %d pages, or a cursor twice", len(cursors)+1)
		}
		cursors[next] = true
		cursor = next
	}
}

// listPage asks for one page and reads it raw: what mcp-go makes of a definition has lost the keywords it does not know.
func (c *client) listPage(ctx context.Context, cursor string) ([]json.RawMessage, string, error) {
	x := &exchange{}
	var request mcp.ListToolsRequest
	request.Params.Cursor = mcp.Cursor(cursor)
	_, err := c.mcp.ListToolsByPage(withExchange(ctx, x), request)
	raw, err := c.outcome(x, err)
	if err != nil {
		if e := upstream.As(err); e.Kind == upstream.Answered && e.Code == mcp.METHOD_NOT_FOUND {
			return nil, "", nil // a server without tools
		}
		if ctx.Err() != nil {
			return nil, "", &upstream.Error{Kind: upstream.Interrupted, Sent: true, Err: context.Cause(ctx),
				Message: "the server did not answer tools/list in time"}
		}
		return nil, "", err
	}
	// A map, since struct fields would match in any letter case.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "", protocolError("the result of tools/list is not an object: %w", err)
	}
	var tools []json.RawMessage
	if err := json.Unmarshal(fields["tools"], &tools); err != nil {
		return nil, "", protocolError("the result of tools/list has no array `tools`: %w", err)
	}
	var next string
	if text, ok := fields["nextCursor"]; ok && string(text) != "null" {
		if err := json.Unmarshal(text, &next); err != nil {
			return nil, "", protocolError("`nextCursor` of tools/list is not a string: %w", err)
		}
	}
	return tools, next, nil
}

func protocolError(format string, args ...any) *upstream.Error {
	e := upstream.Errorf(upstream.Protocol, format, args...)
	e.Sent = true
	return e
}
