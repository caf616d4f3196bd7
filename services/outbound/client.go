package outbound

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const maxRedirects = 5

// Credentials supplies the tokens of one connection. Its errors go to the requester unchanged.
type Credentials interface {
	// Token returns the token for the next request; empty if there is none.
	Token(ctx context.Context) (string, error)
	// Refused handles resp, the 401 or 403 for a request with the token used. It returns the token with which to repeat the request, or an
	// error if there is no other token. It returns neither if the token is not the reason. again is true if the request was a repetition.
	Refused(ctx context.Context, used string, again bool, resp *http.Response) (next string, err error)
	// Hide replaces tokens in a message.
	Hide(text string) string
}

// roundTripper adds the connection's token and the registered headers to requests to the registered origin.
type roundTripper struct {
	base    *http.Transport
	origin  *url.URL
	headers map[string]string
	login   Credentials // may be nil
}

// RoundTrip implements http.RoundTripper. If the server refuses the token, RoundTrip sends the request once more with another token. If there is
// no other token, it returns the error of Credentials.Refused, or the 401 or 403 if that error is nil.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case !SameOrigin(req.URL, t.origin):
		return t.base.RoundTrip(req)
	case t.login == nil:
		return t.base.RoundTrip(t.authorize(req, ""))
	}
	ctx := req.Context()
	token, err := t.login.Token(ctx)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, NotExecuted{err}
	}
	resp, err := t.base.RoundTrip(t.authorize(req, token))
	if err != nil || !isRefusal(resp) {
		return resp, err
	}
	next, loginErr := t.login.Refused(ctx, token, false, resp)
	if next != "" && (req.Body == nil || req.GetBody != nil) {
		discard(resp)
		second := t.authorize(req, next)
		if req.GetBody != nil {
			if second.Body, err = req.GetBody(); err != nil {
				return nil, err
			}
		}
		if resp, err = t.base.RoundTrip(second); err != nil || !isRefusal(resp) {
			return resp, err
		}
		_, loginErr = t.login.Refused(ctx, next, true, resp)
	}
	if loginErr != nil {
		discard(resp)
		return nil, NotExecuted{loginErr}
	}
	return resp, nil
}

// NotExecuted wraps the error of a request that the server did not get, or refused without executing it.
type NotExecuted struct{ error }

func (e NotExecuted) Unwrap() error { return e.error }

// discard closes a 401 or 403. It reads a limited part of the body first, so that the TCP connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

func isRefusal(resp *http.Response) bool {
	return resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
}

// authorize returns a copy of a request with the registered headers, and with the token if there is one.
func (t *roundTripper) authorize(req *http.Request, token string) *http.Request {
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

// CloseIdleConnections makes http.Client.CloseIdleConnections work.
func (t *roundTripper) CloseIdleConnections() { t.base.CloseIdleConnections() }

// SameOrigin reports whether two addresses have the same scheme, host and port. A default port that is written out counts as different.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host)
}

// checkRedirect allows a redirect only if the request stays the same: a POST that becomes a GET is another request.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > maxRedirects:
		return redirectError("it redirects more than %d times", maxRedirects)
	case req.Method != first.Method:
		return redirectError("it redirects, to %s, with a status that turns %s into %s; register the address to which it redirects instead", Place(req.URL), first.Method, req.Method)
	case first.URL.Scheme == "https" && req.URL.Scheme != "https":
		return redirectError("it redirects from https to %s", Place(req.URL))
	}
	return nil
}

// Place returns the scheme and host of an address. The other parts may be secret, the path too: hosted servers often have their token in it.
func Place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

func redirectError(format string, args ...any) error {
	return &Error{Message: "the server cannot be used: " + fmt.Sprintf(format, args...)}
}

// Server describes the server that an HTTP client is for.
type Server struct {
	Origin      *url.URL
	PublicOnly  bool           // its address must be public or allowed
	Allowed     []netip.Prefix // ranges that clients may reach beside public addresses
	AllowedOnly bool           // and no public addresses
	Advice      string         // how another address can be reached, for those who read that it is refused
	Headers     map[string]string
	Login       Credentials // may be nil
}

// NewClient makes a client for one user of a server. Clients share no TCP connections. The errors may wrap *Error and NotExecuted.
func NewClient(s Server) *http.Client {
	trips := &roundTripper{base: newTransport(s), origin: s.Origin, headers: s.Headers, login: s.Login}
	return &http.Client{Transport: trips, CheckRedirect: checkRedirect}
}

// NewBareClient makes a client that checks addresses, but adds no headers or tokens and follows redirects as net/http does.
func NewBareClient(s Server) *http.Client { return &http.Client{Transport: newTransport(s)} }

func newTransport(s Server) *http.Transport {
	reach := newReach(s)
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
	if !s.PublicOnly && s.Origin != nil {
		reach.trust(s.Origin) // and no other address: redirects are still checked
		t.Proxy = reach.proxy
	}
	return t
}

// Error is the refusal of an address or a redirect.
type Error struct {
	Address bool // the address may not be reached; if false, the redirect cannot be followed
	Message string
	public  string // Message without the address; "": Message has none
}

func (e *Error) Error() string { return e.Message }

// PublicError returns the text for users who do not operate the pool.
func (e *Error) PublicError() string { return e.public }

// refuseAddress returns the refusal of an address that its name resolved to; format has a %s for it.
func refuseAddress(format, address string) error {
	return &Error{Address: true, Message: fmt.Sprintf(format, address), public: fmt.Sprintf(format, "the server's address")}
}

// hideName makes the error of a name whose address may not be reached, and that of a name that does not exist, look the same to users who do not
// operate the pool: they must not learn which names exist on its network.
func hideName(err error, advice string) error {
	refused, ok := errors.AsType[*Error](err)
	name, isName := errors.AsType[*net.DNSError](err)
	if !ok && (!isName || !name.IsNotFound) {
		return err
	}
	e := &Error{Address: true, public: "the server's name has no public address: check it; " + advice}
	if e.Message = err.Error() + ": check the name"; ok {
		e.Message = refused.Message
	}
	return e
}

// IsTransient reports whether an error of the network may be temporary, unlike a name that does not exist or a certificate that is not trusted.
func IsTransient(err error) bool {
	if name, ok := errors.AsType[*net.DNSError](err); ok {
		return !name.IsNotFound
	}
	_, cert := errors.AsType[*tls.CertificateVerificationError](err)
	_, issuer := errors.AsType[x509.UnknownAuthorityError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return err != nil && !cert && !issuer && !record
}

// RetryAfter reads the Retry-After header: seconds, or a date (RFC 9110, section 10.2.3). It returns 0 for anything else.
func RetryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(header); err == nil {
		return max(date.Sub(now), 0)
	}
	return 0
}
