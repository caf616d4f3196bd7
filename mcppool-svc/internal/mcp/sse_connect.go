package mcp

import (
	"context"
	"errors"

	"pawl.dev/mcppool-svc/internal/registry"
)

// connectSSE speaks the older HTTP transport, of 2024-11-05.
func (c *Connector) connectSSE(ctx context.Context, s *registry.Server, user string) (*client, error) {
	// All answers come over one stream: one that is too long must not end it for the others, so the transport bounds them itself.
	web, err := c.newWeb(s, user, maxSkips*c.cfg.MaxMessage, nil)
	if err != nil {
		return nil, err
	}
	var conn *client
	wire := newSSE(web.client, c.cfg.MaxMessage, func(err error) { conn.fail(err) })
	t := &httpTap{tap{Interface: wire, judge: wire.judge}}
	conn = newClient(&t.tap, t, legacy, c.log, c.options(s, legacy)...)
	conn.of(s)
	conn.roots, conn.shared = s.Roots, s.Isolation == registry.Shared
	conn.hide = web.hide
	conn.release = web.client.CloseIdleConnections
	x := &exchange{}
	if err = wire.open(withExchange(ctx, x), s.HTTP.URL); err != nil {
		err = conn.openError(ctx, x, err)
	} else {
		err = c.handshake(ctx, conn)
	}
	if err != nil {
		failure := *As(err)
		failure.Message = "MCP server " + s.ID + " at " + place(web.origin) + ": " + failure.Message
		return nil, errors.Join(&failure, conn.Close())
	}
	return conn, nil
}

// openError says why there is no stream of events.
func (c *client) openError(ctx context.Context, x *exchange, err error) *Error {
	if ctx.Err() != nil {
		return c.silence(ctx)
	}
	var known *Error
	r := x.report()
	e := &Error{Kind: Unavailable, Err: err, Message: c.hide(cut(strip(err)))}
	switch {
	case errors.As(err, &known):
		own := *known
		e = &own
	case errors.Is(err, errNoStream) && r.status/100 != 2:
		e = refused(r)
		e.Err = errors.Join(errNoStream, e.Err)
	case errors.Is(err, errNoStream):
		e.Kind = Protocol
	}
	e.Sent = false // no tool was called
	return e
}
