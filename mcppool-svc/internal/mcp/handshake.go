package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// handshakeError says why initialize failed and what to do about it.
func (c *client) handshakeError(ctx context.Context, x *exchange, err error) *Error {
	if errors.Is(err, errNoHandshake) {
		return c.noDiscovery(ctx, x, err)
	}
	var version mcp.UnsupportedProtocolVersionError
	if errors.As(err, &version) && version.Version != "" && x.report().rpcErr == nil {
		return Errorf(Protocol,
			"the server speaks the MCP revision %q, which is not known here; use another version of the server", cut(version.Version))
	}
	status := x.report().status
	if errors.Is(err, transport.ErrLegacySSEServer) && !loginFailed(x.report()) && status != http.StatusForbidden && status != http.StatusTooManyRequests {
		return &Error{Kind: Unavailable, Err: transport.ErrLegacySSEServer,
			Message: "the server refuses streamable HTTP (" + statusText(status) + "), and does not speak the older HTTP+SSE transport " +
				"there either: the address may be wrong (many end in /mcp or /sse)"}
	}
	if ctx.Err() != nil && !c.isDone() {
		return c.silence(ctx)
	}
	r := x.report()
	if r.rpcErr == nil && r.result != nil {
		return Errorf(Protocol, "the server's answer to initialize cannot be used: %s", cut(strip(err)))
	}
	_, failure := c.outcome(x, err)
	e := *As(failure)
	e.Message = c.hide(e.Message)
	return &e
}

// silence is a server that does not answer initialize in time.
func (c *client) silence(ctx context.Context) *Error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Kind: Interrupted, Message: "connecting was given up", Err: ctx.Err()}
	}
	e := &Error{Kind: Unavailable, Err: ctx.Err(),
		Message: "the server did not answer initialize in time"}
	if c.said == nil {
		e.Message += "; check its address, or raise its start_timeout"
		return e
	}
	if c.lines.Noise() != "" {
		e.Kind = Protocol
	}
	e.Message = fmt.Sprintf("%s%s; check that the command starts an MCP server on stdin and stdout, or raise its start_timeout",
		e.Message, c.said())
	return e
}
