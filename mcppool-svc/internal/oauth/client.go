package oauth

import (
	"context"
	"crypto"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/loopback"
)

// maxRegistrations bounds the registered clients that are stored; the oldest is dropped.
const maxRegistrations = 1000

// registration is the stored record of a client that the pool registered at one issuer for one redirect address.
type registration struct {
	Version int       `json:"v"`
	Client  client    `json:"client"`
	Time    time.Time `json:"time"`
	Expiry  time.Time `json:"expiry,omitzero"` // of the secret
}

// clientFor returns the OAuth client to use: the configured client, else one with a metadata document, else a registered client, as MCP
// recommends. If fresh is true, clientFor registers a new client instead of using a stored registration.
func (l *Logins) clientFor(ctx context.Context, w *web, server *registry.Server, a authority, redirect string, fresh bool) (client, error) {
	if o := server.HTTP.OAuth; o != nil && o.ClientID != "" {
		return l.configuredClient(server, a)
	}
	if a.Documents && l.cfg.ClientMetadata != "" {
		return client{ID: l.cfg.ClientMetadata, Method: methodNone}, nil
	}
	key := a.Issuer + "\x00" + redirect
	if !fresh {
		if r, ok := l.vault.registration(key); ok && (r.Expiry.IsZero() || l.now().Before(r.Expiry)) {
			return r.Client, nil
		}
	}
	if a.Register == "" {
		return client{}, refused("the authorization server %s registers no clients by itself: register Pawl there with the redirect address %s, "+
			"and set oauth.client_id (and client_secret) of the MCP server", a.Issuer, redirect)
	}
	r, err := l.register(ctx, w, a, redirect)
	if err != nil {
		return client{}, err
	}
	if err := l.vault.putRegistration(key, r); err != nil {
		return client{}, err
	}
	return r.Client, nil
}

// configuredClient returns the client of the server's settings. The client is bound to the first authorization server that accepted it, so that
// the secret goes to no other one. Logging out as an operator or as the server's owner removes the binding.
func (l *Logins) configuredClient(server *registry.Server, a authority) (client, error) {
	if bound := l.vault.boundTo(bindingKey(server)); bound != "" && bound != a.Issuer {
		return client{}, refused("MCP server %s now names the authorization server %s, but its oauth.client_id was used at %s; "+
			"if that is right, let the owner of the MCP server or an operator run `pawl mcp logout %[1]s`, and log in again", server.ID, a.Issuer, bound)
	}
	secret, err := l.secretOf(server)
	if err != nil {
		return client{}, err
	}
	m, err := chooseMethod(a.Methods, secret)
	if err != nil {
		return client{}, err
	}
	return client{ID: server.HTTP.OAuth.ClientID, Secret: secret, Method: m, Configured: true}, nil
}

// secretOf returns the configured secret with its references resolved.
func (l *Logins) secretOf(server *registry.Server) (string, error) {
	if server.HTTP.OAuth == nil || server.HTTP.OAuth.ClientSecret == "" {
		return "", nil
	}
	return l.deps.Secret(server, server.HTTP.OAuth.ClientSecret)
}

// bindingKey returns the storage key of a configured client's binding; "" if no client is configured.
func bindingKey(server *registry.Server) string {
	if server.HTTP.OAuth == nil || server.HTTP.OAuth.ClientID == "" {
		return ""
	}
	return server.Origin() + "\x00" + server.HTTP.OAuth.ClientID
}

// register registers a client (RFC 7591).
func (l *Logins) register(ctx context.Context, w *web, a authority, redirect string) (registration, error) {
	u, err := url.Parse(redirect)
	if err != nil {
		return registration{}, fmt.Errorf("%w: %w", ErrRedirect, err)
	}
	kind := "web"
	if loopback.Is(u.Hostname()) {
		kind = "native"
	}
	wanted := methodBasic
	if len(a.Methods) > 0 {
		if wanted, err = chooseMethod(a.Methods, "secret"); err != nil {
			return registration{}, err
		}
	}
	body, err := json.Marshal(map[string]any{
		"client_name": "Pawl", "software_id": "pawl", "application_type": kind, "redirect_uris": []string{redirect},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": wanted,
	})
	if err != nil {
		return registration{}, fmt.Errorf("writing the registration of a client: %w", err)
	}
	resp, err := w.post(ctx, a.Register, "application/json", string(body), nil)
	if err != nil {
		return registration{}, err
	}
	if resp.status != http.StatusCreated && resp.status != http.StatusOK {
		return registration{}, l.registrationFailed(a, redirect, resp)
	}
	return readRegistration(a, resp, wanted, l.now())
}

func (l *Logins) registrationFailed(a authority, redirect string, resp *httpResponse) error {
	if a.guessed && (resp.status == http.StatusNotFound || resp.status == http.StatusMethodNotAllowed) {
		return refused("it has neither metadata for logins nor the default login endpoints of MCP 2025-03-26; if it requires a key instead of a login, put the key into the server's `headers`")
	}
	err := mcp.As(unexpected(a.Register, resp))
	err.Message = fmt.Sprintf("the authorization server %s does not register Pawl with the redirect address %s: %s", a.Issuer, redirect, err.Message)
	return err
}

func readRegistration(a authority, resp *httpResponse, wanted string, now time.Time) (registration, error) {
	var got struct {
		ID      string      `json:"client_id"`
		Secret  string      `json:"client_secret"`
		Expires jsonSeconds `json:"client_secret_expires_at"`
		Method  string      `json:"token_endpoint_auth_method"`
	}
	if !resp.read(&got) || got.ID == "" || len(got.ID) > 2000 || len(got.Secret) > 10000 {
		return registration{}, refused("%s answered with something that is not a registered client", displayURL(a.Register))
	}
	r := registration{Version: recordVersion, Time: now, Client: client{ID: got.ID, Secret: got.Secret, Method: wanted}}
	switch {
	case got.Method != "":
		r.Client.Method = got.Method
	case got.Secret == "":
		r.Client.Method = methodNone
	}
	known := []string{methodNone, methodBasic, methodPost}
	if !slices.Contains(known, r.Client.Method) || r.Client.Method != methodNone && got.Secret == "" {
		return registration{}, refused("the authorization server %s requires that the client authenticates by %.100q, which Pawl does not support", a.Issuer, r.Client.Method)
	}
	if got.Expires > 0 {
		r.Expiry = time.Unix(int64(min(float64(got.Expires), float64(now.Add(maxLife).Unix()))), 0)
	}
	return r, nil
}

// assertionLife is how long an assertion is valid. It allows for clocks that differ.
const assertionLife = 2 * time.Minute

// isPrivateKey reports whether a client's secret is a key to sign with.
func isPrivateKey(secret string) bool {
	return strings.HasPrefix(strings.TrimSpace(secret), "-----BEGIN")
}

// signAssertion returns a JWT that authenticates the client (private_key_jwt, RFC 7523). Its only audience is the issuer, so it is useless at
// another server.
func signAssertion(keyPEM, clientID, issuer string, now time.Time) (string, error) {
	key, method, err := parseKey([]byte(keyPEM))
	if err != nil {
		return "", err
	}
	text, err := jwt.NewWithClaims(method, jwt.MapClaims{
		"iss": clientID, "sub": clientID, "aud": issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	}).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("signing a client assertion: %w", err)
	}
	return text, nil
}

func parseKey(text []byte) (crypto.PrivateKey, jwt.SigningMethod, error) {
	if key, err := jwt.ParseECPrivateKeyFromPEM(text); err == nil {
		if key.Curve != elliptic.P256() {
			return nil, nil, refused("the client's private key is on the curve %s; use P-256", key.Params().Name)
		}
		return key, jwt.SigningMethodES256, nil
	}
	if key, err := jwt.ParseRSAPrivateKeyFromPEM(text); err == nil {
		return key, jwt.SigningMethodRS256, nil
	}
	if key, err := jwt.ParseEdPrivateKeyFromPEM(text); err == nil {
		return key, jwt.SigningMethodEdDSA, nil
	}
	return nil, nil, refused("the client's private key cannot be read or used; give one for ES256, RS256 or EdDSA in PEM: PKCS #8, EC or RSA")
}

const (
	// maxToken bounds a token, in bytes: it must fit into a header.
	maxToken = 32 << 10
	// maxLife bounds the lifetimes of tokens and secrets that a server states.
	maxLife = 10 * 365 * 24 * time.Hour
)

// The supported methods of client authentication at a token endpoint.
const (
	methodNone  = "none"
	methodBasic = "client_secret_basic"
	methodPost  = "client_secret_post"
	methodKey   = "private_key_jwt"
)

// client is the pool's identity at an authorization server.
type client struct {
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"` // not stored if Configured
	Method string `json:"method"`
	// Configured reports that the client is set in the server's registration.
	Configured bool `json:"configured,omitempty"`
}

// tokenRefusal is a token endpoint's refusal (RFC 6749, 5.2), as opposed to a temporary failure.
type tokenRefusal struct {
	code string
	err  *mcp.Error
}

func (d *tokenRefusal) Error() string { return d.err.Error() }

func (d *tokenRefusal) Unwrap() error { return d.err }

// postForm sends a form with the client's authentication.
func (l *Logins) postForm(ctx context.Context, w *web, endpoint, issuer string, c client, form url.Values) (*httpResponse, error) {
	header := http.Header{}
	if err := l.authenticate(header, form, issuer, c); err != nil {
		return nil, err
	}
	return w.post(ctx, endpoint, "application/x-www-form-urlencoded", form.Encode(), header)
}

// requestToken makes a token request. The token has only the fields of the response. Its scopes are nil if the response names none; then the
// requested scopes were granted.
func (l *Logins) requestToken(ctx context.Context, w *web, endpoint, issuer string, c client, form url.Values) (*token, error) {
	a, err := l.postForm(ctx, w, endpoint, issuer, c, form)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK || errorText(a) != "" { // GitHub sends errors with status 200
		return nil, tokenError(endpoint, a)
	}
	var t struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Scope   *string     `json:"scope"`
		Expires jsonSeconds `json:"expires_in"`
	}
	if !a.read(&t) {
		return nil, refused("%s answered with something that is not a token", displayURL(endpoint))
	}
	switch {
	case t.Access == "":
		return nil, refused("%s answered without an access token", displayURL(endpoint))
	case !isToken(t.Access) || t.Refresh != "" && !isToken(t.Refresh):
		return nil, refused("%s gave a token that cannot be sent: it is too long, or has characters that a header cannot hold", displayURL(endpoint))
	case !strings.EqualFold(t.Type, "Bearer"):
		return nil, refused("%s gave a token of the type %.50q; only Bearer can be used", displayURL(endpoint), t.Type)
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

// authenticate adds the client's authentication to a request.
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
		assertion, err := signAssertion(c.Secret, c.ID, issuer, l.now())
		if err != nil {
			return err
		}
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
	}
	form.Set("client_id", c.ID)
	return nil
}

// tokenError returns the error of a token request: a *tokenRefusal if the server refused it, any other error if the request may succeed later or the
// response cannot be read.
func tokenError(endpoint string, a *httpResponse) error {
	err := unexpected(endpoint, a)
	e := mcp.As(err)
	var body struct {
		Error string `json:"error"`
	}
	if e.Kind == mcp.Unavailable || !a.read(&body) || body.Error == "" {
		return err
	}
	switch body.Error {
	case "server_error", "temporarily_unavailable", "slow_down":
		e.Kind = mcp.Unavailable
		return e
	}
	return &tokenRefusal{code: body.Error, err: e}
}

// chooseMethod chooses the client's authentication method at the token endpoint from the methods that the server offers. Without a secret it is
// methodNone, with a private key methodKey.
func chooseMethod(offered []string, secret string) (string, error) {
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
	return "", refused("the authorization server authenticates clients only by %.200q, which Pawl does not support", strings.Join(offered, " "))
}

// isToken reports whether a text can be sent as a bearer token.
func isToken(s string) bool {
	return s != "" && len(s) <= maxToken && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// jsonSeconds is a number of seconds. Some servers send a string in its place.
type jsonSeconds float64

// UnmarshalJSON implements json.Unmarshaler.
func (s *jsonSeconds) UnmarshalJSON(text []byte) error {
	v, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err == nil {
		*s = jsonSeconds(v)
	}
	return nil // not a number: ignored
}
