package mcp

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"

	"pawl.dev/mcppool-svc/internal/registry"
)

// Credentials are the tokens of one connection. All errors are *Error.
type Credentials interface {
	// Token is what the next request is to carry; empty where there is nothing.
	Token(ctx context.Context) (string, error)
	// Refused handles a 401 or 403 for a token. It returns another token to send the request with once more, or an error if there
	// is none, or neither if the refusal is about something else.
	Refused(ctx context.Context, used string, again bool, resp *http.Response) (next string, err error)
	// Hide takes tokens out of a message.
	Hide(text string) string
}

func (c *Connector) credentials(s *registry.Server, user string) Credentials {
	if c.cfg.Credentials == nil {
		return nil
	}
	return c.cfg.Credentials(s, user)
}

// loginTripper puts the connection's token on every request to the server's origin.
type loginTripper struct {
	next   http.RoundTripper
	origin *url.URL
	login  Credentials
}

// RoundTrip implements http.RoundTripper. A request that is refused for its token is sent once more with another one, if
// there is one; the error says why there is none.
func (t *loginTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if !sameOrigin(req.URL, t.origin) {
		return t.next.RoundTrip(req)
	}
	token, err := t.login.Token(req.Context())
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, notSent(err)
	}
	resp, err := t.next.RoundTrip(withToken(req, token))
	if err != nil || !isRefusal(resp) {
		return resp, err
	}
	next, why := t.login.Refused(req.Context(), token, false, resp)
	if second := again(req, next); second != nil {
		discard(resp)
		if resp, err = t.next.RoundTrip(second); err != nil || !isRefusal(resp) {
			return resp, err
		}
		_, why = t.login.Refused(req.Context(), next, true, resp)
	}
	if why != nil {
		discard(resp)
		return nil, notSent(why)
	}
	return resp, nil
}

// unsentError is an error of a request that the server did not execute.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

func notSent(err error) error { return unsentError{err} }

func isRefusal(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// withToken is a request with a token.
func withToken(req *http.Request, token string) *http.Request {
	if token == "" {
		return req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return req
}

// again is the same request with another token, or nil if there is none or the body cannot be sent again.
func again(req *http.Request, token string) *http.Request {
	if token == "" {
		return nil
	}
	second := withToken(req, token)
	if req.Body == nil || req.Body == http.NoBody {
		return second
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	second.Body = body
	return second
}

// CloseIdleConnections lets http.Client's method of that name reach the transport.
func (t *loginTripper) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Web makes HTTP clients for what a server needs beside MCP, such as logins, with the same checks of addresses and without its
// headers.
func Web(allowed []netip.Prefix) func(*registry.Server) *http.Client {
	return func(s *registry.Server) *http.Client {
		reach := newReach(allowed)
		base := &http.Transport{
			DialContext: reach.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dialLimit, MaxResponseHeaderBytes: 64 << 10,
		}
		if u, err := url.Parse(s.HTTP.URL); err == nil && !s.HTTP.PublicOnly {
			reach.trust(u)
			base.Proxy = reach.proxy
		}
		return &http.Client{Transport: base}
	}
}

// Secrets replaces references in a value of a server's settings. Servers of plain users have none.
func Secrets(environ []string) func(*registry.Server, string) (string, error) {
	return func(s *registry.Server, value string) (string, error) {
		if !s.ByOperator {
			return value, nil
		}
		const name = "oauth.client_secret"
		out, err := expand(map[string]string{name: value}, environ)
		if err != nil {
			return "", Errorf(Misconfigured, "MCP server %s: %w", s.ID, err)
		}
		return out[name], nil
	}
}
