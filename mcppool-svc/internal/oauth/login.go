package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

const (
	// loginLife is how long a login can be finished after it was begun.
	loginLife = 10 * time.Minute
	// maxOpen and maxOpenPerUser bound the open logins in all and of one user.
	maxOpen        = 10_000
	maxOpenPerUser = 20
	// offlineAccess is the scope that some servers require for a refresh token (OpenID Connect Core, 11).
	offlineAccess = "offline_access"
)

// openLogin is a login that was begun and not finished.
type openLogin struct {
	ref      ref
	user     string
	mcpID    string
	server   *registry.Server
	info     *loginInfo
	client   client
	verifier string // of PKCE
	redirect string
	scopes   []string
	stepUps  int
	expiry   time.Time
}

// Started is a login that was begun.
type Started struct {
	URL      string // the page that the person opens
	State    string // identifies the login; the browser returns it
	Redirect string // where the browser will be sent
	Expiry   time.Time
}

// Start begins a user's login to a server. Errors: ErrRedirect, ErrNoLogin, ErrStorage, or *mcp.Error if the MCP server or its
// authorization server does not allow the login.
func (l *Logins) Start(ctx context.Context, server *registry.Server, user, redirect string) (Started, error) {
	redirect, err := chooseRedirect(redirect, l.cfg.RedirectURI)
	if err != nil {
		return Started{}, err
	}
	if !canHaveLogin(server) || isPoolLogin(server) {
		return Started{}, ErrNoLogin
	}
	r := refFor(server, user)
	w := l.web(server)
	defer w.close()
	o, err := l.prepare(ctx, w, server, r, redirect)
	if err != nil {
		return Started{}, withServer(server, "logging in", err)
	}
	o.user = user
	address, err := url.Parse(o.info.authority.Authorize)
	if err != nil {
		return Started{}, withServer(server, "logging in", err)
	}
	state := newSecret()
	address.RawQuery = o.query(address.Query(), state).Encode()
	l.addOpen(state, o)
	return Started{URL: address.String(), State: state, Redirect: redirect, Expiry: o.expiry}, nil
}

// prepare makes the requests that a login needs before the browser opens.
func (l *Logins) prepare(ctx context.Context, w *web, server *registry.Server, r ref, redirect string) (*openLogin, error) {
	address, err := url.Parse(server.HTTP.URL)
	if err != nil {
		return nil, refused("its url cannot be read: %w", err)
	}
	n, err := l.needOf(ctx, w, r, address)
	if err != nil {
		return nil, err
	}
	info, err := discover(ctx, w, address, n.challenge, l.vault.boundTo(bindingKey(server)))
	if err != nil {
		return nil, err
	}
	if info.authority.Authorize == "" {
		return nil, refused("the authorization server %s does not offer logins with PKCE (S256), without which they are not safe", info.authority.Issuer)
	}
	c, err := l.clientFor(ctx, w, server, info.authority, redirect, l.hasOpenLogin(r))
	if err != nil {
		return nil, err
	}
	o := &openLogin{
		ref: r, mcpID: server.ID, server: server, info: info, client: c, redirect: redirect,
		verifier: newSecret(), expiry: l.now().Add(loginLife),
	}
	o.scopes, o.stepUps = l.chooseScopes(server, r, n, info)
	return o, nil
}

// needOf returns what the server asked for last. If that is not known, needOf sends a ping without a token to find out.
func (l *Logins) needOf(ctx context.Context, w *web, r ref, address *url.URL) (need, error) {
	l.mu.Lock()
	n, known := l.needs[r]
	l.mu.Unlock()
	if known {
		return n, nil
	}
	a, err := w.post(ctx, address.String(), "application/json", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil)
	if err != nil {
		return need{}, err
	}
	n.challenge, _ = challengeOf(a.header)
	return n, nil
}

// chooseScopes returns the scopes to request: the configured ones, else those that the server asked for, else those in its metadata. A login for
// more rights also requests the scopes that the server asked for and those of the previous login. stepUps is token.StepUps of the new login.
func (l *Logins) chooseScopes(server *registry.Server, r ref, n need, info *loginInfo) (scopes []string, stepUps int) {
	switch {
	case server.HTTP.OAuth != nil && len(server.HTTP.OAuth.Scopes) > 0:
		scopes = slices.Clone(server.HTTP.OAuth.Scopes)
		if n.more {
			scopes = union(scopes, n.challenge.scopes)
		}
	case len(n.challenge.scopes) > 0:
		scopes = slices.Clone(n.challenge.scopes)
	default:
		scopes = slices.Clone(info.scopes)
	}
	if t, _ := l.vault.token(r); t != nil && n.more {
		scopes, stepUps = union(t.Wanted, scopes), t.StepUps+1
	}
	if len(scopes) > 0 && slices.Contains(info.authority.Scopes, offlineAccess) {
		scopes = union(scopes, []string{offlineAccess})
	}
	return scopes, stepUps
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) && len(out) < maxScopes {
			out = append(out, s)
		}
	}
	return out
}

// query adds the parameters of the authorization request to q.
func (o *openLogin) query(q url.Values, state string) url.Values {
	sum := sha256.Sum256([]byte(o.verifier))
	for name, value := range map[string]string{
		"response_type": "code", "client_id": o.client.ID, "redirect_uri": o.redirect, "state": state, "resource": o.info.resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if len(o.scopes) > 0 {
		q.Set("scope", strings.Join(o.scopes, " "))
	}
	if slices.Contains(o.scopes, offlineAccess) {
		q.Set("prompt", "consent") // without it servers may ignore the scope
	}
	return q
}

// newSecret returns 260 random bits as text.
func newSecret() string { return rand.Text() + rand.Text() }

// hasOpenLogin reports whether a login of the same user to the same server was begun and not finished, perhaps because the authorization server
// no longer knows the client.
func (l *Logins) hasOpenLogin(r ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.open {
		if o.ref == r {
			return true
		}
	}
	return false
}

// addOpen stores an open login. It replaces the user's earlier login to the same server, and drops logins that are too old or too many.
func (l *Logins) addOpen(state string, o *openLogin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, mine := l.now(), make(map[string]*openLogin)
	for s, earlier := range l.open {
		if earlier.ref == o.ref || now.After(earlier.expiry.Add(loginLife)) { // kept after its expiry for hasOpenLogin
			delete(l.open, s)
		} else if earlier.user == o.user {
			mine[s] = earlier
		}
	}
	expiry := func(o *openLogin) time.Time { return o.expiry }
	switch {
	case len(mine) >= maxOpenPerUser:
		delete(l.open, store.Oldest(mine, expiry))
	case len(l.open) >= maxOpen:
		delete(l.open, store.Oldest(l.open, expiry))
	}
	l.open[state] = o
}

// withServer adds the server to an error.
func withServer(server *registry.Server, doing string, err error) error {
	e := *mcp.As(err)
	e.Message = fmt.Sprintf("%s to MCP server %s: %s", doing, server.ID, err.Error())
	e.Err = err
	return &e
}

// Answer holds the parameters with which the browser returned.
type Answer struct {
	State, Code, Iss   string
	Error, Description string
}

// Finished describes a login that was finished.
type Finished struct {
	MCPID  string
	Server *registry.Server // as it was when the login began
	Scopes []string
	Expiry time.Time // zero: not known
}

// Finish finishes a login once, and only for the user who began it. Errors: ErrUnknownLogin, ErrAnswer, ErrStorage, or *mcp.Error.
func (l *Logins) Finish(ctx context.Context, user string, a Answer) (Finished, error) {
	o := l.takeOpen(user, a.State)
	if o == nil {
		return Finished{}, ErrUnknownLogin
	}
	if err := o.check(a); err != nil {
		return Finished{}, err
	}
	w := l.web(o.server)
	defer w.close()
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {a.Code}, "redirect_uri": {o.redirect},
		"code_verifier": {o.verifier}, "resource": {o.info.resource},
	}
	t, err := l.requestToken(ctx, w, o.info.authority.Token, o.info.authority.Issuer, o.client, form)
	if err != nil {
		l.dropUnknownClient(o, err)
		return Finished{}, withServer(o.server, "logging in", err)
	}
	t.complete(o.info, o.client, o.scopes)
	t.StepUps = o.stepUps
	if o.client.Configured {
		if err := l.vault.bind(bindingKey(o.server), t.Issuer); err != nil {
			return Finished{}, err
		}
	}
	if _, err := l.vault.put(o.ref, t, nil); err != nil {
		return Finished{}, err
	}
	l.clearNeed(o.ref)
	l.deps.Log.InfoContext(ctx, "logged in to an MCP server", "mcp_id", o.mcpID, "user", o.user, "issuer", t.Issuer)
	return Finished{MCPID: o.mcpID, Server: o.server, Scopes: t.Scopes, Expiry: t.Expiry}, nil
}

// takeOpen removes an open login of a user and returns it; nil if there is none.
func (l *Logins) takeOpen(user, state string) *openLogin {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open[state]
	if o == nil || o.user != user || l.now().After(o.expiry) {
		return nil
	}
	delete(l.open, state)
	return o
}

// check checks an answer before any of it is used or shown: the answer must be from the authorization server of the login (RFC 9207).
func (o *openLogin) check(a Answer) error {
	issuer := o.info.authority.Issuer
	switch {
	case a.Iss == "" && o.info.authority.SendsIss:
		return fmt.Errorf("%w: it does not name its issuer, though %s always does; log in again", ErrAnswer, issuer)
	case a.Iss != "" && a.Iss != issuer:
		return fmt.Errorf("%w: it is from %.200q, not from %s; it may be an attempt to steal the login", ErrAnswer, a.Iss, issuer)
	case a.Error != "":
		return fmt.Errorf("%w: %s reports %s", ErrAnswer, issuer, quoteError(a.Error, a.Description))
	case a.Code == "":
		return fmt.Errorf("%w: it has no code", ErrAnswer)
	}
	return nil
}

// dropUnknownClient drops a registered client if the error means that its authorization server no longer knows it.
func (l *Logins) dropUnknownClient(o *openLogin, err error) {
	var d *tokenRefusal
	if errors.As(err, &d) && (d.code == "invalid_client" || d.code == "unauthorized_client") && !o.client.Configured {
		l.vault.dropRegistration(o.info.authority.Issuer + "\x00" + o.redirect)
	}
}

// complete sets the fields of a token that the token response lacks.
func (t *token) complete(s *loginInfo, c client, wanted []string) {
	t.Issuer, t.Resource, t.Endpoint, t.Revoke = s.authority.Issuer, s.resource, s.authority.Token, s.authority.Revoke
	t.Client, t.Wanted = c, wanted
	if c.Configured {
		t.Client.Secret = "" // clientOf reads it from the configuration
	}
	if t.Scopes == nil {
		t.Scopes = slices.Clone(wanted)
	}
}

// revoke revokes a token at its authorization server (RFC 7009).
func (l *Logins) revoke(ctx context.Context, server *registry.Server, t *token) error {
	if t.Revoke == "" {
		return nil
	}
	c, err := l.clientOf(server, t)
	if err != nil {
		return err
	}
	form := url.Values{"token": {t.Access}, "token_type_hint": {"access_token"}}
	if t.Refresh != "" {
		form = url.Values{"token": {t.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	w := l.web(server)
	defer w.close()
	a, err := l.postForm(ctx, w, t.Revoke, t.Issuer, c, form)
	if err == nil && a.status/100 != 2 {
		err = unexpected(t.Revoke, a)
	}
	return err
}

// clientOf returns the client of a token, with the secret that is configured now.
func (l *Logins) clientOf(server *registry.Server, t *token) (client, error) {
	c := t.Client
	if !c.Configured {
		return c, nil
	}
	if server.HTTP.OAuth == nil || server.HTTP.OAuth.ClientID != c.ID {
		return c, loginRequired("the oauth.client_id of MCP server %s has changed since you logged in: run `pawl mcp login %[1]s`", server.ID)
	}
	var err error
	c.Secret, err = l.secretOf(server)
	return c, err
}

// scopeList returns scopes as text for people.
func scopeList(scopes []string) string {
	if len(scopes) == 0 {
		return "none named"
	}
	return strings.Join(scopes, ", ")
}
