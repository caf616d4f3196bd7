package mcp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
)

// Bounds of what one server may offer.
const (
	maxTools     = 10_000
	maxToolBytes = 16 << 20
	maxPages     = 1_000
)

// listing is one of the lists that a server has.
type listing struct {
	method, key string // the request, and the member of its result that holds the entries
	page        func(ctx context.Context, cursor mcp.Cursor) error
	items       int // at most
	bytes       int // at most
	what        string
}

// ListTools implements Client.
func (c *client) ListTools(ctx context.Context) ([]json.RawMessage, error) {
	tools, err := c.collect(ctx, listing{method: "tools/list", key: "tools", items: maxTools, bytes: maxToolBytes, what: "tools",
		page: func(ctx context.Context, cursor mcp.Cursor) error {
			var request mcp.ListToolsRequest
			request.Params.Cursor = cursor
			exchangeOf(ctx).unless = c.mirrored
			_, err := c.mcp.ListToolsByPage(stubbed(ctx, `{"tools":[]}`), request)
			return err
		}})
	return c.mirrorable(ctx, tools), err
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

// listPage asks for one page and reads it raw: what mcp-go makes of a definition has lost the keywords it does not know.
func (c *client) listPage(ctx context.Context, l listing, cursor string) ([]json.RawMessage, string, error) {
	x := &exchange{}
	raw, err := c.outcome(x, l.page(withExchange(ctx, x), mcp.Cursor(cursor)))
	if err != nil {
		if e := As(err); e.Kind == Answered && e.Code == mcp.METHOD_NOT_FOUND {
			return nil, "", nil // a server without them
		}
		if ctx.Err() != nil {
			return nil, "", &Error{Kind: Interrupted, Sent: true, Err: context.Cause(ctx),
				Message: "the server did not answer " + l.method + " in time"}
		}
		return nil, "", err
	}
	// A map, since struct fields would match in any letter case.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, "", protocolError("the result of %s is not an object: %w", l.method, err)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(fields[l.key], &entries); err != nil {
		return nil, "", protocolError("the result of %s has no array `%s`: %w", l.method, l.key, err)
	}
	var next string
	if text, ok := fields["nextCursor"]; ok && string(text) != "null" {
		if err := json.Unmarshal(text, &next); err != nil {
			return nil, "", protocolError("`nextCursor` of %s is not a string: %w", l.method, err)
		}
	}
	return entries, next, nil
}

func protocolError(format string, args ...any) *Error {
	e := Errorf(Protocol, format, args...)
	e.Sent = true
	return e
}
