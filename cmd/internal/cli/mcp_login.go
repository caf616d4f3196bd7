package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/exit"
	"pawl.dev/cmd/internal/landing"
	"pawl.dev/cmd/internal/render"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// MCPLoginCmd is `pawl mcp login`.
type MCPLoginCmd struct {
	ID        string        `arg:"" optional:"" help:"The server."`
	NoBrowser bool          `help:"Open no browser; only print the address."`
	Finish    string        `placeholder:"ADDRESS" help:"End a login that waits, with the address that the browser ended at; - reads it from standard input."`
	Timeout   time.Duration `default:"5m" placeholder:"DURATION" help:"How long to wait for the browser (default ${default})."`
}

// Help is shown by --help.
func (MCPLoginCmd) Help() string {
	return `For HTTP servers that want a login (LOGIN_REQUIRED). What the login gives is kept by the pool, encrypted, for your own
connections to that server, and renewed as long as the server allows it.

The browser comes back to this command over 127.0.0.1. Where it runs on another machine it ends at an address that cannot be
reached there: give that address to --finish, while this command waits.

Examples:

    pawl mcp login github
    pawl mcp login github --no-browser
    pawl mcp login --finish 'http://127.0.0.1:41235/callback?code=…&state=…'
    pawl mcp login --finish -`
}

// Run logs in.
func (c *MCPLoginCmd) Run(ctx context.Context, a *App, g *Globals) error {
	if c.Finish != "" {
		return c.finishByHand(ctx, a, g)
	}
	if c.ID == "" {
		return exit.Usagef("which server?").Then("pawl mcp login ID; pawl mcp list shows the servers")
	}
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		page, err := landing.Listen(ctx)
		if err != nil {
			return exit.Newf("%v", err)
		}
		defer func() { _ = page.Close() }()
		began, err := pool.StartMcpLogin(ctx, &mcppoolv1.StartMcpLoginRequest{McpId: c.ID, RedirectUri: page.Address()})
		if err != nil {
			return err
		}
		page.Expect(began.GetState())
		if err := c.show(a, g, began); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errSlow)
		defer cancel()
		answer, err := page.Wait(ctx)
		if err != nil {
			return c.gaveUp(ctx, g, err)
		}
		done, err := pool.FinishMcpLogin(ctx, finish(answer.Query))
		answer.Say(err == nil)
		return a.loggedIn(g, done, err)
	})
}

var errSlow = errors.New("nobody logged in in time")

// gaveUp says how the waiting ended without a login.
func (c *MCPLoginCmd) gaveUp(ctx context.Context, g *Globals, err error) error {
	if errors.Is(context.Cause(ctx), errSlow) {
		return exit.Newf("nobody logged in within %s", render.Duration(c.Timeout)).Then("pawl mcp login %s%s begins again", c.ID, g.again())
	}
	return err
}

// show says what to open, and opens it where it can.
func (c *MCPLoginCmd) show(a *App, g *Globals, began *mcppoolv1.StartMcpLoginResponse) error {
	address, err := url.Parse(began.GetAuthorizationUrl())
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return exit.Newf("the server gave an address that no browser can open: %s", render.Line(began.GetAuthorizationUrl()))
	}
	if g.JSON {
		if err := render.JSONLine(a.Console.Out, began); err != nil {
			return err
		}
	} else {
		a.eprintf("open this in a browser to log in to %s:\n\n    %s\n\n", render.Line(c.ID), render.Line(address.String()))
	}
	if c.NoBrowser || a.Browse == nil || !a.Console.ErrTTY {
		return nil
	}
	if err := a.Browse(address.String()); err != nil {
		a.note(err.Error())
	}
	return nil
}

// finishByHand ends a login with an address that the person brings.
func (c *MCPLoginCmd) finishByHand(ctx context.Context, a *App, g *Globals) error {
	text := c.Finish
	if text == "-" {
		if a.Console.CanAsk() {
			a.eprintf("the address that the browser ended at: ")
		}
		var err error
		if text, err = a.lines.Read(ctx); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Query().Get("state") == "" {
		return exit.Usagef("that is not an address that a login ends at: it has no state").
			Then("copy the whole address from the browser, and put it into quotes")
	}
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		done, err := pool.FinishMcpLogin(ctx, finish(u.Query()))
		return a.loggedIn(g, done, err)
	})
}

func finish(q url.Values) *mcppoolv1.FinishMcpLoginRequest {
	return &mcppoolv1.FinishMcpLoginRequest{
		State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description"),
	}
}

func (a *App) loggedIn(g *Globals, done *mcppoolv1.FinishMcpLoginResponse, err error) error {
	if err != nil {
		return err
	}
	if g.JSON {
		return render.JSONLine(a.Console.Out, done)
	}
	a.printf("%s\n", render.Line("logged in to "+done.GetMcpId()+" ("+cmp.Or(strings.Join(done.GetScopes(), ", "), "no scopes named")+")"))
	return nil
}

// MCPLogoutCmd is `pawl mcp logout`.
type MCPLogoutCmd struct {
	ID string `arg:"" help:"The server."`
}

// Help is shown by --help.
func (MCPLogoutCmd) Help() string {
	return `The pool forgets your login to the server, and tells whoever gave it.

Examples:

    pawl mcp logout github`
}

// Run logs out.
func (c *MCPLogoutCmd) Run(ctx context.Context, a *App, g *Globals) error {
	return a.withPool(ctx, g, func(ctx context.Context, _ *discover.Session, pool mcppoolv1.McpPoolServiceClient) error {
		answer, err := pool.DeleteMcpLogin(ctx, &mcppoolv1.DeleteMcpLoginRequest{McpId: c.ID})
		if err != nil {
			return err
		}
		if g.JSON {
			return render.JSONDocument(a.Console.Out, answer)
		}
		a.printf("logged out of %s\n", render.Line(c.ID))
		return nil
	})
}
