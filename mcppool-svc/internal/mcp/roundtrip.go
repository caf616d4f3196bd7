package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
)

const maxRedirects = 5

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

// roundTripper adds the connection's token and the registered headers to requests to the registered origin.
type roundTripper struct {
	base    *http.Transport
	origin  *url.URL
	headers map[string]string
	login   Credentials // may be nil
}

// RoundTrip implements http.RoundTripper. A request that is refused for its token is sent once more with another one, if
// there is one; the error says why there is none.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case !sameOrigin(req.URL, t.origin):
		return t.base.RoundTrip(req)
	case t.login == nil:
		return t.base.RoundTrip(t.with(req, ""))
	}
	ctx := req.Context()
	token, err := t.login.Token(ctx)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, unsentError{err}
	}
	resp, err := t.base.RoundTrip(t.with(req, token))
	if err != nil || !isRefusal(resp) {
		return resp, err
	}
	next, why := t.login.Refused(ctx, token, false, resp)
	if next != "" && (req.Body == nil || req.GetBody != nil) {
		discard(resp)
		second := t.with(req, next)
		if req.GetBody != nil {
			if second.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		if resp, err = t.base.RoundTrip(second); err != nil || !isRefusal(resp) {
			return resp, err
		}
		_, why = t.login.Refused(ctx, next, true, resp)
	}
	if why != nil {
		discard(resp)
		return nil, unsentError{why}
	}
	return resp, nil
}

// unsentError is an error of a request that the server did not execute.
type unsentError struct{ error }

func (e unsentError) Unwrap() error { return e.error }

func isRefusal(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// with is a request with a token, if there is one, and the headers.
func (t *roundTripper) with(req *http.Request, token string) *http.Request {
	req = req.Clone(req.Context())
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for name, value := range t.headers {
		req.Header.Set(name, value)
	}
	if host, ok := t.headers["Host"]; ok {
		req.Host = host
	}
	return req
}

// CloseIdleConnections lets http.Client's method of that name reach the transport.
func (t *roundTripper) CloseIdleConnections() { t.base.CloseIdleConnections() }

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// checkRedirect follows a redirect only if the request stays the same: a POST that becomes a GET is another request.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return redirectError("it redirects more than %d times", maxRedirects)
	case req.Method != first.Method:
		return redirectError("it redirects to %s in a way that loses the request; register that address instead", place(req.URL))
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return redirectError("it redirects from https to %s", place(req.URL))
	}
	return nil
}

// place is an address without what may be secret in it.
func place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func redirectError(format string, args ...any) error {
	return Errorf(Misconfigured, "the server cannot be used: %s", fmt.Sprintf(format, args...))
}

// newHTTPTransport makes the connections to a server, which are not shared with other users.
func newHTTPTransport(origin *url.URL, allowed []netip.Prefix, publicOnly bool) *http.Transport {
	reach := newReach(allowed)
	t := &http.Transport{
		DialContext:         reach.dial,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		// Each user of each server has connections of its own, whose idle memory adds up.
		IdleConnTimeout:        30 * time.Second,
		ReadBufferSize:         2 << 10,
		WriteBufferSize:        2 << 10,
		TLSHandshakeTimeout:    dialLimit,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if !publicOnly {
		reach.trust(origin) // and no other: it may not redirect to any address
		t.Proxy = reach.proxy
	}
	return t
}

// Web makes HTTP clients for what a server needs beside MCP, such as logins, with the same checks of addresses and without its
// headers.
func Web(allowed []netip.Prefix) func(*registry.Server) *http.Client {
	return func(s *registry.Server) *http.Client {
		u, err := url.Parse(s.HTTP.URL)
		return &http.Client{Transport: newHTTPTransport(u, allowed, s.HTTP.PublicOnly || err != nil)}
	}
}
