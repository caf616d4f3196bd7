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
	maxListed = 10_000 // entries of each list
	maxPages  = 1_000
)

// List names a list that a server has.
type List int

// The lists.
const (
	Resources List = iota
	ResourceTemplates
	Prompts
	tools // which Client.ListTools returns
)

// listings say how lists are asked for: the method, the member of its result that holds the entries, and the bytes of all entries at most.
var listings = [...]struct {
	method, key string
	bytes       int
}{
	Resources:         {"resources/list", "resources", 8 << 20},
	ResourceTemplates: {"resources/templates/list", "resourceTemplates", 8 << 20},
	Prompts:           {"prompts/list", "prompts", 8 << 20},
	tools:             {"tools/list", "tools", 16 << 20},
}

// String returns the list's method.
func (l List) String() string { return listings[l].method }

// ListTools implements Client.
func (c *client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	definitions, err := c.collect(ctx, tools)
	if _, http := c.wire.(*web); err != nil || !http || !c.isModern() {
		return definitions, err
	}
	return c.readMirrors(ctx, definitions), nil
}

// readMirrors keeps the tools with inputs that are mirrored into HTTP headers (x-mcp-header). It leaves out those whose
// annotations break the rules: the specification has clients do without such tools, and use the others.
func (c *client) readMirrors(ctx context.Context, definitions []json.RawMessage) []json.RawMessage {
	valid, mirrors := make([]json.RawMessage, 0, len(definitions)), make(map[string]mcp.Tool)
	for _, raw := range definitions {
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
func (c *client) collect(ctx context.Context, l List) ([]json.RawMessage, error) {
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
		if all = append(all, page...); len(all) > maxListed || size > listings[l].bytes {
			return nil, &Error{Kind: TooLarge, Sent: true,
				Message: fmt.Sprintf("the server offers more than %d %s or %d MiB of definitions", maxListed, listings[l].key, listings[l].bytes>>20)}
		}
		if next == "" {
			return all, nil
		}
		if cursors[next] || len(cursors) >= maxPages {
			return nil, protocolError("the server's %s has no end: %d pages, or a cursor twice", l, len(cursors)+1)
		}
		cursors[next] = true
		cursor = next
	}
}

// listPage asks for one page and returns its raw entries.
func (c *client) listPage(ctx context.Context, l List, cursor string) (entries []json.RawMessage, next string, err error) {
	var params map[string]any
	if cursor != "" {
		params = map[string]any{"cursor": cursor}
	}
	raw, err := c.ask(ctx, l.String(), "", params)
	if err != nil {
		e := As(err)
		if e.Kind == Answered && e.Code == mcp.METHOD_NOT_FOUND {
			return nil, "", nil // a server without them
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && e.Kind == Interrupted {
			e.Message = "the server did not answer " + l.String() + " in time"
		}
		return nil, "", e
	}
	fields, err := strictjson.MemberMap(raw)
	if err != nil {
		return nil, "", protocolError("the result of %s is not an object: %w", l, err)
	}
	if err := json.Unmarshal(fields[listings[l].key], &entries); err != nil {
		return nil, "", protocolError("the result of %s has no array `%s`: %w", l, listings[l].key, err)
	}
	if cursor := fields["nextCursor"]; !strictjson.Absent(cursor) {
		if err := json.Unmarshal(cursor, &next); err != nil {
			return nil, "", protocolError("`nextCursor` of %s is not a string: %w", l, err)
		}
	}
	return entries, next, nil
}
