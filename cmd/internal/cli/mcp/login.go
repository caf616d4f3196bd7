package mcp

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/internal/ui"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// LoginCmd is `pawl mcp login`.
type LoginCmd struct {
	ID        string        `arg:"" optional:"" complete:"server" help:"The server."`
	NoBrowser bool          `help:"Open no browser; only print the address."`
	Finish    string        `placeholder:"ADDRESS" help:"Finish a waiting login with the address at which the browser ended; - reads it from standard input."`
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
	redirect, err := listenForBrowser(ctx)
	if err != nil {
		return ui.Errorf("%v", err)
	}
	defer redirect.close()
	login, err := s.Pool.StartMcpLogin(ctx, &mcppoolv1.StartMcpLoginRequest{McpId: c.ID, RedirectUri: redirect.address()})
	if err != nil {
		return err
	}
	redirect.serve(login.GetState())
	if err := c.show(u, login); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errSlow)
	defer cancel()
	select {
	case answer := <-redirect.answers:
		done, err := s.Pool.FinishMcpLogin(ctx, finishRequest(answer))
		return showLogin(u, done, err)
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), errSlow) {
		return ui.Errorf("the login was not finished within %s", ui.Duration(c.Timeout)).Then("pawl mcp login %s%s begins again", c.ID, s.Flags())
	}
	return ctx.Err()
}

// errSlow is the cause of a context that ended with --timeout.
var errSlow = errors.New("the login was not finished in time")

// show prints the authorization URL and opens it in a browser if there is one.
func (c *LoginCmd) show(u *ui.UI, login *mcppoolv1.StartMcpLoginResponse) error {
	address, err := url.Parse(login.GetAuthorizationUrl())
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" {
		return ui.Errorf("the server gave an address that no browser can open: %s", ui.Line(login.GetAuthorizationUrl()))
	}
	if u.JSON {
		if err := ui.JSONLine(u.Out, login); err != nil {
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

// finishByHand finishes a login with the redirect address that the user pastes.
func (c *LoginCmd) finishByHand(ctx context.Context, u *ui.UI, s *discover.Session) error {
	text := c.Finish
	if text == "-" {
		if u.CanAsk() {
			u.Eprintf("the address at which the browser ended: ")
		}
		var err error
		if text, err = u.Lines().Read(ctx); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	address, err := url.Parse(strings.TrimSpace(text))
	if err != nil || address.Query().Get("state") == "" {
		return ui.Usagef("this is not the address of a finished login: it has no state").
			Then("copy the whole address from the browser, and quote it")
	}
	done, err := s.Pool.FinishMcpLogin(ctx, finishRequest(address.Query()))
	return showLogin(u, done, err)
}

// finishRequest builds the request from the query of the redirect.
func finishRequest(q url.Values) *mcppoolv1.FinishMcpLoginRequest {
	return &mcppoolv1.FinishMcpLoginRequest{
		State: q.Get("state"), Code: q.Get("code"), Iss: q.Get("iss"), Error: q.Get("error"), ErrorDescription: q.Get("error_description"),
	}
}

// showLogin prints a finished login, or returns err.
func showLogin(u *ui.UI, done *mcppoolv1.FinishMcpLoginResponse, err error) error {
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
	return u.Result(answer, err, "logged out of %s", ui.Line(c.ID))
}

const (
	landingPath = "/callback"
	closeWithin = 2 * time.Second
)

// landing is the loopback listener that receives the browser's redirect at the end of a login (RFC 8252).
type landing struct {
	lis      net.Listener
	server   *http.Server
	state    string          // of the pending login
	received atomic.Bool     // a redirect with the right state came
	answers  chan url.Values // the query of the redirect
}

// listenForBrowser listens on a free loopback port. The caller closes the landing.
func listenForBrowser(ctx context.Context) (*landing, error) {
	lis, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser on this machine: %w", err)
	}
	p := &landing{lis: lis, answers: make(chan url.Values, 1)}
	p.server = &http.Server{Handler: http.HandlerFunc(p.land), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	return p, nil
}

// address returns the redirect URI.
func (p *landing) address() string { return "http://" + p.lis.Addr().String() + landingPath }

// serve answers browsers. It accepts the first redirect with this state and refuses all others.
func (p *landing) serve(state string) {
	p.state = state
	go func() { _ = p.server.Serve(p.lis) }() // it ends with close
}

// close closes the listener once the browser has its response.
func (p *landing) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if errors.Is(p.server.Shutdown(ctx), context.DeadlineExceeded) {
		_ = p.server.Close()
	}
	_ = p.lis.Close() // in case serve was not called
}

// land handles a request: the redirect of the pending login, or anything else.
func (p *landing) land(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Connection", "close")
	if r.Method != http.MethodGet || r.URL.Path != landingPath || r.Host != p.lis.Addr().String() {
		page(w, http.StatusNotFound, "There is nothing here.")
		return
	}
	q := r.URL.Query()
	if subtle.ConstantTimeCompare([]byte(p.state), []byte(q.Get("state"))) != 1 || p.received.Swap(true) {
		page(w, http.StatusBadRequest, "This address belongs to no login that pawl waits for, so pawl ignores it.")
		return
	}
	p.answers <- q
	page(w, http.StatusOK, "Go back to the terminal: it says whether you are logged in. You can close this page.")
}

// page writes an HTML page with the text.
func page(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!doctype html><html lang=\"en\"><title>Pawl</title><p>%s</p></html>\n", text)
}
