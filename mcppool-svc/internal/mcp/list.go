package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"pawl.dev/services/strictjson"
)

// Bounds of what one server may offer.
const (
	maxTools       = 10_000
	maxToolBytes   = 16 << 20
	maxListed      = 10_000 // entries of each other list
	maxListedBytes = 8 << 20
	maxPages       = 1_000
)

// listing is one of the lists that a server has.
type listing struct {
	method, key string // the request, and the member of its result that holds the entries
	items       int    // at most
	bytes       int    // at most
	what        string
}

var (
	toolsListing = listing{method: string(mcp.MethodToolsList), key: "tools", items: maxTools, bytes: maxToolBytes, what: "tools"}
	listings     = map[List]listing{
		Resources:         {method: Resources.String(), key: "resources", items: maxListed, bytes: maxListedBytes, what: "resources"},
		ResourceTemplates: {method: ResourceTemplates.String(), key: "resourceTemplates", items: maxListed, bytes: maxListedBytes, what: "templates of resources"},
		Prompts:           {method: Prompts.String(), key: "prompts", items: maxListed, bytes: maxListedBytes, what: "prompts"},
	}
)

// ListTools implements Client.
func (c *client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	tools, err := c.collect(ctx, toolsListing)
	if _, http := c.wire.(*web); err != nil || !http || !c.isModern() {
		return tools, err
	}
	return c.readMirrors(ctx, tools), nil
}

// readMirrors keeps the tools with inputs that are mirrored into HTTP headers (x-mcp-header). It leaves out those whose
// annotations break the rules: the specification has clients do without such tools, and use the others.
func (c *client) readMirrors(ctx context.Context, tools []json.RawMessage) []json.RawMessage {
	valid, mirrors := make([]json.RawMessage, 0, len(tools)), make(map[string]mcp.Tool)
	for _, raw := range tools {
		var tool mcp.Tool
		annotated := bytes.Contains(raw, []byte("x-mcp-header")) || bytes.Contains(raw, []byte(`\u`))
		if !annotated || json.Unmarshal(raw, &tool) != nil { // the catalog reports definitions that cannot be read
			valid = append(valid, raw)
			continue
		}
		if err := mcp.ValidateParamHeaderAnnotations(&tool); err != nil {
			c.log.WarnContext(ctx, "a tool of an MCP server is left out: its x-mcp-header annotations are not valid",
				"mcp_id", c.server.ID, "tool", cut(tool.Name), "error", err)
			continue
		}
		mirrors[tool.Name] = tool
		valid = append(valid, raw)
	}
	c.mirrors.Store(&mirrors)
	return valid
}

// collect asks for all pages of a list.
func (c *client) collect(ctx context.Context, l listing) ([]json.RawMessage, error) {
	var all []json.RawMessage
	var size int
	cursors := make(map[string]bool)
	for cursor := ""; ; {
		page, next, err := c.listPage(ctx, l, cursor)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			size += len(entry)
		}
		all = append(all, page...)
		if len(all) > l.items || size > l.bytes {
			return nil, &Error{Kind: TooLarge, Sent: true,
				Message: fmt.Sprintf("the server offers more than %d %s or %d MiB of definitions", l.items, l.what, l.bytes>>20)}
		}
		if next == "" {
			return all, nil
		}
		if cursors[next] || len(cursors) >= maxPages {
			return nil, protocolError("the server's %s has no end: %d pages, or a cursor twice", l.method, len(cursors)+1)
		}
		cursors[next] = true
		cursor = next
	}
}

// listPage asks for one page and returns its raw entries.
func (c *client) listPage(ctx context.Context, l listing, cursor string) ([]json.RawMessage, string, error) {
	var params map[string]any
	if cursor != "" {
		params = map[string]any{"cursor": cursor}
	}
	raw, err := c.ask(ctx, l.method, "", params)
	if err != nil {
		e := As(err)
		if e.Kind == Answered && e.Code == mcp.METHOD_NOT_FOUND {
			return nil, "", nil // a server without them
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Kind == Interrupted {
			e.Message = "the server did not answer " + l.method + " in time"
		}
		return nil, "", e
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, "", protocolError("the result of %s is not an object: %w", l.method, err)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(fields[l.key], &entries); err != nil {
		return nil, "", protocolError("the result of %s has no array `%s`: %w", l.method, l.key, err)
	}
	var next string
	if text := fields["nextCursor"]; !strictjson.Absent(text) {
		if err := json.Unmarshal(text, &next); err != nil {
			return nil, "", protocolError("`nextCursor` of %s is not a string: %w", l.method, err)
		}
	}
	return entries, next, nil
}
