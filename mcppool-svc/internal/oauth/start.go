package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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
	// loginLife is how long a login that was begun can be finished.
	loginLife = 10 * time.Minute
	// maxOpen bounds those, in all and of one user.
	maxOpen        = 10_000
	maxOpenPerUser = 20
	// offlineAccess is the scope that some servers want before they give a refresh token (OpenID Connect Core, 11).
	offlineAccess = "offline_access"
)

// open is a login that was begun and not finished.
type open struct {
	ref      ref
	user     string
	mcpID    string
	server   *registry.Server
	site     *site
	client   client
	verifier string
	redirect string
	scopes   []string
	stepUps  int
	expiry   time.Time
}

// Started is a login that was begun.
type Started struct {
	URL      string // what the person is to open
	State    string // names the login; the browser brings it back
	Redirect string // where the browser will be sent
	Expiry   time.Time
}

// Start begins a user's login to a server. Errors: ErrRedirect, ErrNoLogin, or *mcp.Error if the servers do not
// allow it.
func (l *Logins) Start(ctx context.Context, server *registry.Server, user, redirect string) (Started, error) {
	redirect, err := chooseRedirect(redirect, l.cfg.RedirectURI)
	if err != nil {
		return Started{}, err
	}
	if !possible(server) || byPool(server) {
		return Started{}, ErrNoLogin
	}
	r := refFor(server, user)
	w := l.web(server)
	defer w.close()
	o, err := l.prepare(ctx, w, server, r, redirect)
	if err != nil {
		return Started{}, explained(server, "logging in", err)
	}
	o.user = user
	address, err := url.Parse(o.site.authority.Authorize)
	if err != nil {
		return Started{}, explained(server, "logging in", err)
	}
	state := newSecret()
	address.RawQuery = o.query(address.Query(), state).Encode()
	l.add(state, o)
	return Started{URL: address.String(), State: state, Redirect: redirect, Expiry: o.expiry}, nil
}

// prepare makes all requests that a login needs before the browser opens.
func (l *Logins) prepare(ctx context.Context, w *web, server *registry.Server, r ref, redirect string) (*open, error) {
	address, err := url.Parse(server.HTTP.URL)
	if err != nil {
		return nil, refused("its url cannot be read: %w", err)
	}
	n, err := l.needOf(ctx, w, r, address)
	if err != nil {
		return nil, err
	}
	found, err := discover(ctx, w, address, n.challenge, l.vault.boundTo(bindingKey(server)))
	if err != nil {
		return nil, err
	}
	if found.authority.Authorize == "" {
		return nil, refused("the authorization server %s does not offer logins with PKCE (S256), without which they are not safe", found.authority.Issuer)
	}
	c, err := l.clientFor(ctx, w, server, found.authority, redirect, l.unfinished(r))
	if err != nil {
		return nil, err
	}
	o := &open{
		ref: r, mcpID: server.ID, server: server, site: found, client: c, redirect: redirect,
		verifier: newSecret(), expiry: l.now().Add(loginLife),
	}
	o.scopes, o.stepUps = l.scopes(server, r, n, found)
	return o, nil
}

// needOf returns what the server asked for last. If that is not known, a request that does nothing finds out.
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

// scopes chooses what to ask for: what is configured, else what the server asked for, else what its metadata name; and
// what was asked for before, so that no right gets lost.
func (l *Logins) scopes(server *registry.Server, r ref, n need, found *site) (scopes []string, stepUps int) {
	switch {
	case server.HTTP.OAuth != nil && len(server.HTTP.OAuth.Scopes) > 0:
		scopes = slices.Clone(server.HTTP.OAuth.Scopes)
		if n.more {
			scopes = union(scopes, n.challenge.scopes)
		}
	case len(n.challenge.scopes) > 0:
		scopes = slices.Clone(n.challenge.scopes)
	default:
		scopes = slices.Clone(found.scopes)
	}
	if t, _ := l.vault.token(r); t != nil && n.more {
		scopes, stepUps = union(t.Wanted, scopes), t.StepUps+1
	}
	if len(scopes) > 0 && slices.Contains(found.authority.Scopes, offlineAccess) {
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

// query is what the authorization endpoint is asked.
func (o *open) query(q url.Values, state string) url.Values {
	sum := sha256.Sum256([]byte(o.verifier))
	for name, value := range map[string]string{
		"response_type": "code", "client_id": o.client.ID, "redirect_uri": o.redirect, "state": state, "resource": o.site.resource,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	if len(o.scopes) > 0 {
		q.Set("scope", strings.Join(o.scopes, " "))
	}
	if slices.Contains(o.scopes, offlineAccess) {
		q.Set("prompt", "consent") // without which it may be ignored
	}
	return q
}

// newSecret returns 256 random bits.
func newSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// unfinished reports whether a login of the same user to the same server was begun before and not finished: perhaps the server
// no longer knows the client.
func (l *Logins) unfinished(r ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.open {
		if o.ref == r {
			return true
		}
	}
	return false
}

// add keeps a login, instead of an earlier one to the same server and of those that are too old or too many.
func (l *Logins) add(state string, o *open) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, mine := l.now(), make(map[string]*open)
	for s, other := range l.open {
		if other.ref == o.ref || now.After(other.expiry.Add(loginLife)) { // kept a while longer, for unfinished
			delete(l.open, s)
		} else if other.user == o.user {
			mine[s] = other
		}
	}
	expiry := func(o *open) time.Time { return o.expiry }
	switch {
	case len(mine) >= maxOpenPerUser:
		delete(l.open, store.Oldest(mine, expiry))
	case len(l.open) >= maxOpen:
		delete(l.open, store.Oldest(l.open, expiry))
	}
	l.open[state] = o
}

// explained adds to an error which server it is about.
func explained(server *registry.Server, doing string, err error) error {
	e := *mcp.As(err)
	e.Message = fmt.Sprintf("%s to MCP server %s: %s", doing, server.ID, err.Error())
	e.Err = err
	return &e
}
