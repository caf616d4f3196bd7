package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

const (
	maxRedirects = 5
	// byeLimit is how long the DELETE that ends a session may take.
	byeLimit = 2 * time.Second
)

// roundTripper sits under mcp-go's HTTP transport. It adds the registered headers, to the registered origin alone; bounds
// what comes back; and notes in the exchange how far a request went.
type roundTripper struct {
	base    http.RoundTripper
	origin  *url.URL
	headers map[string]string
	limit   int
	judge   *judge // of messages that say two things; nil where somebody else looks at them
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaders: x.markSent})
	cancel := context.CancelFunc(func() {})
	if req.Method == http.MethodDelete {
		ctx, cancel = context.WithTimeout(ctx, byeLimit)
	}
	req = req.Clone(ctx)
	if sameOrigin(req.URL, t.origin) {
		for name, value := range t.headers {
			req.Header.Set(name, value)
		}
		if host, ok := t.headers["Host"]; ok {
			req.Host = host
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		cancel()
		x.blame(err)
		return nil, err
	}
	x.markStatus(resp.StatusCode, retryAfter(resp.Header.Get("Retry-After"), time.Now()))
	if resp.StatusCode == http.StatusTemporaryRedirect || resp.StatusCode == http.StatusPermanentRedirect {
		x.notSent() // it is to be sent elsewhere
	}
	if resp.StatusCode == http.StatusNotFound && req.Header.Get(mcp.HeaderMethod) != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		// Since 2026-07-28 this is how a server says that it does not know a method. mcp-go would not read on, and take a session
		// for lost that there is none of.
		resp.StatusCode, resp.Status = http.StatusBadRequest, ""
	}
	events := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = &boundedBody{
		ReadCloser: resp.Body, limit: t.limit, x: x, notes: newThrottle(), cancel: cancel,
		events: events, answer: !events && resp.StatusCode == http.StatusOK,
	}
	if t.judge != nil && resp.StatusCode == http.StatusOK {
		resp.Body = &checkedBody{ReadCloser: resp.Body, judge: t.judge, x: x, events: events}
	}
	return resp, nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// checkRedirect lets a request move on only as it is: a POST that becomes a GET would be another request.
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

// newHTTPClient makes the client of one connection: nothing is shared with any other user's.
func newHTTPClient(origin *url.URL, headers map[string]string, reach *reach, publicOnly bool, limit int, judge *judge) *http.Client {
	base := &http.Transport{
		DialContext:         reach.dial,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		// Each user of each server has connections of its own: what they take while nobody uses them adds up.
		IdleConnTimeout:        30 * time.Second,
		ReadBufferSize:         2 << 10,
		WriteBufferSize:        2 << 10,
		TLSHandshakeTimeout:    dialLimit,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if !publicOnly {
		reach.trust(origin) // and nowhere else: it may not send us where it likes
		base.Proxy = reach.proxy
	}
	return &http.Client{
		Transport:     &roundTripper{base: base, origin: origin, headers: headers, limit: limit, judge: judge},
		CheckRedirect: checkRedirect,
	}
}

// CloseIdleConnections lets http.Client's method of that name reach the transport.
func (t *roundTripper) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
