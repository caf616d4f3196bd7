package mcp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// LoginCmd is `pawl mcp login`.
type LoginCmd struct {
	ID        string        `arg:"" optional:"" complete:"server" help:"The server."`
	NoBrowser bool          `help:"Open no browser; only print the address."`
	Finish    string        `placeholder:"ADDRESS" help:"End a login that waits, with the address that the browser ended at; - reads it from standard input."`
	Timeout   time.Duration `default:"5m" placeholder:"DURATION" help:"How long to wait for the browser (default ${default})."`
}

// Run logs in.
func (c *LoginCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	if c.Finish != "" {
		return c.finishByHand(ctx, u, s)
	}
	if c.ID == "" {
		return ui.Usagef("which server?").Then("pawl mcp login ID; pawl mcp list shows the servers")
	}
	page, err := listenForBrowser(ctx)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	defer page.close()
	began, err := s.Pool.StartMcpLogin(ctx, &mcppoolv1.StartMcpLoginRequest{McpId: c.ID, RedirectUri: page.address()})
	if err != nil {
		return err
	}
	page.serve(began.GetState())
	if err := c.show(u, began); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errSlow)
	defer cancel()
	select {
	case answer := <-page.answers:
		done, err := s.Pool.FinishMcpLogin(ctx, finish(answer.query))
		answer.worked <- err == nil
		return loggedIn(u, done, err)
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errSlow) {
		return ui.Errorf("no login came within %s", ui.Duration(c.Timeout)).Then("pawl mcp login %s%s begins again", c.ID, s.Flags())
	}
	return ctx.Err()
}

var errSlow = errors.New("no login came in time")

// show says what to open, and opens it if it can.
func (c *LoginCmd) show(u *ui.UI, began *mcppoolv1.StartMcpLoginResponse) error {
	address, err := url.Parse(began.GetAuthorizationUrl())
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return ui.Errorf("the server gave an address that no browser can open: %s", ui.Line(began.GetAuthorizationUrl()))
	}
	if u.JSON {
		if err := ui.JSONLine(u.Out, began); err != nil {
			return err
		}
	} else {
		u.Eprintf("open this in a browser to log in to %s:\n\n    %s\n\n", ui.Line(c.ID), ui.Line(address.String()))
	}
	if c.NoBrowser || u.Browse == nil || !u.ErrTTY {
		return nil
	}
	if err := u.Browse(address.String()); err != nil {
		u.Note("%v", err)
	}
	return nil
}

// finishByHand ends a login with an address that the person brings.
func (c *LoginCmd) finishByHand(ctx context.Context, u *ui.UI, s *discover.Session) error {
	text := c.Finish
	if text == "-" {
		if u.CanAsk() {
			u.Eprintf("the address that the browser ended at: ")
		}
		var err error
		if text, err = u.Lines().Read(ctx); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	address, err := url.Parse(strings.TrimSpace(text))
	if err != nil || address.Query().Get("state") == "" {
		return ui.Usagef("that is not an address that a login ends at: it has no state").
			Then("copy the whole address from the browser, and put it into quotes")
	}
	done, err := s.Pool.FinishMcpLogin(ctx, finish(address.Query()))
	return loggedIn(u, done, err)
}

func finish(q url.Values) *mcppoolv1.FinishMcpLoginRequest {
	return &mcppoolv1.FinishMcpLoginRequest{
		State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description"),
	}
}

func loggedIn(u *ui.UI, done *mcppoolv1.FinishMcpLoginResponse, err error) error {
	if err != nil {
		return err
	}
	if u.JSON {
		return ui.JSONLine(u.Out, done)
	}
	u.Printf("%s\n", ui.Line("logged in to "+done.GetMcpId()+" ("+cmp.Or(strings.Join(done.GetScopes(), ", "), "no scopes named")+")"))
	return nil
}

// LogoutCmd is `pawl mcp logout`.
type LogoutCmd struct{ ServerArg }

// Run logs out.
func (c *LogoutCmd) Run(ctx context.Context, u *ui.UI, s *discover.Session) error {
	answer, err := s.Pool.DeleteMcpLogin(ctx, &mcppoolv1.DeleteMcpLoginRequest{McpId: c.ID})
	if err != nil {
		return err
	}
	return u.Result(answer, "logged out of %s", ui.Line(c.ID))
}
