package oauth

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
)

const (
	// maxToken bounds a token: it must fit into a header.
	maxToken = 32 << 10
	// maxLife bounds what a server says of a token's life.
	maxLife = 10 * 365 * 24 * time.Hour
)

// Ways to authenticate at a token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

// client is who the pool is at an authorization server.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"` // of a client that registered itself; else it is configured
	Method string `json:"method"`
	// Configured says that an operator, or the owner of the server, set it.
	Configured bool `json:"configured,omitempty"`
}

// denied is a token endpoint's refusal (RFC 6749, 5.2), as opposed to a failure that may pass.
type denied struct {
	code string
	why  *mcp.Error
}

func (d *denied) Error() string { return d.why.Error() }

func (d *denied) Unwrap() error { return d.why }

// request sends a form as a client.
func (l *Logins) request(ctx context.Context, w *web, endpoint, issuer string, c client, form url.Values) (*answer, error) {
	header := http.Header{}
	if err := l.authenticate(header, form, issuer, c); err != nil {
		return nil, err
	}
	return w.post(ctx, endpoint, "application/x-www-form-urlencoded", form.Encode(), header)
}

// ask makes a token request. It returns only the fields of this response; scopes are nil if the response has none, which means those that
// were asked for.
func (l *Logins) ask(ctx context.Context, w *web, endpoint, issuer string, c client, form url.Values) (*token, error) {
	a, err := l.request(ctx, w, endpoint, issuer, c, form)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, denial(endpoint, a)
	}
	var t struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Scope   *string     `json:"scope"`
		Expires jsonSeconds `json:"expires_in"`
	}
	if !a.read(&t) {
		return nil, refused("%s answered with something that is not a token", shown(endpoint))
	}
	switch {
	case !isToken(t.Access) || t.Refresh != "" && !isToken(t.Refresh):
		return nil, refused("%s gave a token that cannot be sent", shown(endpoint))
	case !strings.EqualFold(t.Type, "Bearer"):
		return nil, refused("%s gave a token of the type %.50q; only Bearer can be used", shown(endpoint), t.Type)
	}
	g := &token{Access: t.Access, Refresh: t.Refresh, Obtained: l.now()}
	if t.Scope != nil {
		g.Scopes = scopesOf(*t.Scope)
	}
	if t.Expires > 0 {
		g.Expiry = l.now().Add(time.Duration(min(float64(t.Expires), maxLife.Seconds()) * float64(time.Second)))
	}
	return g, nil
}

// authenticate adds who the client is.
func (l *Logins) authenticate(header http.Header, form url.Values, issuer string, c client) error {
	switch c.Method {
	case methodBasic:
		// RFC 6749, 2.3.1: both are form-encoded first.
		pair := url.QueryEscape(c.ID) + ":" + url.QueryEscape(c.Secret)
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
		return nil
	case methodPost:
		form.Set("client_secret", c.Secret)
	case methodKey:
		assertion, err := assert(c.Secret, c.ID, issuer, l.now())
		if err != nil {
			return err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	}
	form.Set("client_id", c.ID)
	return nil
}

// denial tells a refusal from a server that has trouble.
func denial(endpoint string, a *answer) error {
	err := unexpected(endpoint, a)
	e := mcp.As(err)
	var said struct {
		Error string `json:"error"`
	}
	if e.Kind == mcp.Unavailable || !a.read(&said) || said.Error == "" {
		return err
	}
	switch said.Error {
	case "server_error", "temporarily_unavailable", "slow_down":
		e.Kind = mcp.Unavailable
		return e
	}
	return &denied{code: said.Error, why: e}
}

// method chooses the client's authentication method at the token endpoint from those that the server supports; none without a secret.
func method(offered []string, secret string) (string, error) {
	switch {
	case isPrivateKey(secret):
		return methodKey, nil
	case secret == "":
		return methodNone, nil
	case len(offered) == 0: // RFC 8414: the default
		return methodBasic, nil
	}
	for _, m := range []string{methodBasic, methodPost, methodNone} {
		if slices.Contains(offered, m) {
			return m, nil
		}
	}
	return "", refused("the authorization server authenticates clients by %.200q alone, which is not known here", strings.Join(offered, " "))
}

// isToken reports whether a text can be sent as a bearer token.
func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// jsonSeconds reads numbers, and the texts that some servers send in their place.
type jsonSeconds float64

// UnmarshalJSON implements json.Unmarshaler.
func (s *jsonSeconds) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err == nil {
		*s = jsonSeconds(v)
	}
	return nil // what is no number says nothing
}
