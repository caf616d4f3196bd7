package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const maxRedirects = 5

// roundTripper adds the registered headers to requests to the registered origin.
type roundTripper struct {
	base    *http.Transport
	origin  *url.URL
	headers map[string]string
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if sameOrigin(req.URL, t.origin) {
		req = req.Clone(req.Context())
		for name, value := range t.headers {
			req.Header.Set(name, value)
		}
		if host, ok := t.headers["Host"]; ok {
			req.Host = host
		}
	}
	return t.base.RoundTrip(req)
}

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

// newHTTPClient makes the HTTP client of one connection, which shares nothing with other users'.
func newHTTPClient(origin *url.URL, headers map[string]string, reach *reach, publicOnly bool) *http.Client {
	base := &http.Transport{
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
		base.Proxy = reach.proxy
	}
	return &http.Client{
		Transport:     &roundTripper{base: base, origin: origin, headers: headers},
		CheckRedirect: checkRedirect,
	}
}

// CloseIdleConnections lets http.Client's method of that name reach the transport.
func (t *roundTripper) CloseIdleConnections() { t.base.CloseIdleConnections() }
