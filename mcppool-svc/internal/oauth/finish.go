package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/registry"
)

// Answer is what the browser returned with.
type Answer struct {
	State, Code, Iss   string
	Error, Description string
}

// Finished is a login.
type Finished struct {
	MCPID  string
	Server *registry.Server // as it was when the login began
	Scopes []string
	Expiry time.Time // zero: not known
}

// Finish ends a login, once, for the user that began it. Errors: ErrUnknownLogin, ErrAnswer, or
// *mcp.Error.
func (l *Logins) Finish(ctx context.Context, user string, a Answer) (Finished, error) {
	o := l.take(user, a.State)
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
		"code_verifier": {o.verifier}, "resource": {o.site.resource},
	}
	t, err := l.ask(ctx, w, o.site.authority.Token, o.site.authority.Issuer, o.client, form)
	if err != nil {
		l.disown(o, err)
		return Finished{}, explained(o.server, "logging in", err)
	}
	t.complete(o.site, o.client, o.scopes)
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

// take returns and removes a login of a user; nil if there is none.
func (l *Logins) take(user, state string) *open {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open[state]
	if o == nil || o.user != user || l.now().After(o.expiry) {
		return nil
	}
	delete(l.open, state)
	return o
}

// check checks an answer before anything of it is used or shown: it must be of the server that was asked (RFC 9207).
func (o *open) check(a Answer) error {
	issuer := o.site.authority.Issuer
	switch {
	case a.Iss == "" && o.site.authority.SendsIss:
		return fmt.Errorf("%w: it does not say who it is from, though %s always does; log in again", ErrAnswer, issuer)
	case a.Iss != "" && a.Iss != issuer:
		return fmt.Errorf("%w: it is from %.200q, not from %s; it may be an attempt to steal the login", ErrAnswer, a.Iss, issuer)
	case a.Error != "":
		return fmt.Errorf("%w: %s says %s", ErrAnswer, issuer, quoteError(a.Error, a.Description))
	case a.Code == "":
		return fmt.Errorf("%w: it has no code", ErrAnswer)
	}
	return nil
}

// disown drops a registered client that its authorization server no longer knows.
func (l *Logins) disown(o *open, err error) {
	var d *denied
	if errors.As(err, &d) && (d.code == "invalid_client" || d.code == "unauthorized_client") && !o.client.Configured {
		l.vault.dropRegistration(o.site.authority.Issuer + "\x00" + o.redirect)
	}
}

// complete adds to granted tokens what a login is beside.
func (t *token) complete(s *site, c client, wanted []string) {
	t.Issuer, t.Resource, t.Endpoint, t.Revoke = s.authority.Issuer, s.resource, s.authority.Token, s.authority.Revoke
	t.Client, t.Wanted = c, wanted
	if c.Configured {
		t.Client.Secret = "" // it is read from the configuration
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
	c, err := l.current(server, t)
	if err != nil {
		return err
	}
	form := url.Values{"token": {t.Access}, "token_type_hint": {"access_token"}}
	if t.Refresh != "" {
		form = url.Values{"token": {t.Refresh}, "token_type_hint": {"refresh_token"}}
	}
	w := l.web(server)
	defer w.close()
	a, err := l.request(ctx, w, t.Revoke, t.Issuer, c, form)
	if err == nil && a.status/100 != 2 {
		err = unexpected(t.Revoke, a)
	}
	return err
}

// current is the client of a token, with the secret that is configured now.
func (l *Logins) current(server *registry.Server, t *token) (client, error) {
	c := t.Client
	if !c.Configured {
		return c, nil
	}
	if server.HTTP.OAuth == nil || server.HTTP.OAuth.ClientID != c.ID {
		return c, loginRequired("the oauth.client_id of MCP server %s is another one since you logged in: run `pawl mcp login %[1]s`", server.ID)
	}
	var err error
	c.Secret, err = l.secretOf(server)
	return c, err
}

// list is a set of scopes for people.
func list(scopes []string) string {
	if len(scopes) == 0 {
		return "none named"
	}
	return strings.Join(scopes, ", ")
}
