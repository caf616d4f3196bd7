package mcp

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"

	"pawl.dev/mcppool-svc/internal/registry"
)

// connectHTTP speaks streamable HTTP.
func (c *Connector) connectHTTP(ctx context.Context, s *registry.Server, user string, e era) (*client, error) {
	judge := newJudge(c.cfg.MaxMessage)
	web, err := c.newWeb(s, user, c.cfg.MaxMessage, judge)
	if err != nil {
		return nil, err
	}
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(web.client),
		transport.WithHTTPLogger(slog.New(demoted{c.log.With("mcp_id", s.ID).Handler()})),
	}
	var ear *ear
	if e == legacy {
		ear = newEar(web.client.Transport)
		web.client.Transport = ear
		// The stream that brings tools/list_changed while no request is running.
		//nolint:staticcheck // deprecated for 2026-07-28, which this branch is not about
		options = append(options, transport.WithContinuousListening())
	}
	wire, err := transport.NewStreamableHTTP(s.HTTP.URL, options...)
	if err != nil {
		return nil, Errorf(Misconfigured, "MCP server %s: %w", s.ID, err)
	}
	over, opts := &discoveryTap{httpTap: httpTap{tap{Interface: wire, judge: judge}}}, c.options(s, e)
	var conn *client
	if e == modern {
		conn = newClient(&over.tap, over, e, c.log, append(opts, mcpclient.WithDiscoverTimeout(discoverLimit))...)
		conn.hangsUp, conn.mirrors = true, c.log.With("mcp_id", s.ID)
	} else {
		conn = newClient(&over.tap, &over.httpTap, e, c.log, opts...)
	}
	conn.of(s)
	conn.ear = ear
	conn.roots, conn.shared, conn.web = s.Roots, s.Isolation == registry.Shared, true
	conn.reply = (&replier{url: s.HTTP.URL, web: web.client, conn: conn}).send
	conn.hide = web.hide
	conn.release = web.client.CloseIdleConnections
	if err := c.handshake(ctx, conn); err != nil {
		failure := *As(err)
		if who := "MCP server " + s.ID; !strings.Contains(failure.Message, who) { // what is said of logins names it
			failure.Message = who + " at " + place(web.origin) + ": " + failure.Message
		}
		if failure.Kind == Unavailable && failure.Lost {
			failure.Message += "; check that it runs and that its url is right"
		}
		return nil, errors.Join(&failure, conn.Close())
	}
	return conn, nil
}

// demoted logs at debug level what mcp-go takes for errors: here they come back as errors of requests.
type demoted struct{ slog.Handler }

// Enabled implements slog.Handler.
func (d demoted) Enabled(ctx context.Context, _ slog.Level) bool {
	return d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
