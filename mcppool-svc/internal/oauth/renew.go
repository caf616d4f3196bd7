package oauth

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

const (
	// renewAhead is how long before its expiry a token is renewed, but at most a quarter of its life.
	renewAhead = time.Minute
	// renewLimit bounds one renewal.
	renewLimit = 30 * time.Second
)

func (t *token) expired(now time.Time) bool { return !t.Expiry.IsZero() && !now.Before(t.Expiry) }

// needsRenewal reports whether a token has expired or soon will.
func (t *token) needsRenewal(now time.Time) bool {
	ahead := min(renewAhead, t.Expiry.Sub(t.Obtained)/4)
	return t.expired(now.Add(ahead))
}

// renewOnce runs work for a login, or joins the renewal of the login that is running, and waits for the result. The renewal continues when its
// callers give up, because the server may have replaced the old token already.
func (l *Logins) renewOnce(ctx context.Context, r ref, work func(context.Context) (*token, error)) (*token, error) {
	done := l.renewals.DoChan(r.key(""), func() (any, error) {
		if !l.beginWork() {
			return nil, mcp.Errorf(mcp.Unavailable, "the pool is stopping")
		}
		defer l.work.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewLimit)
		defer cancel()
		defer context.AfterFunc(l.base, cancel)()
		return work(ctx)
	})
	select {
	case result := <-done:
		t, _ := result.Val.(*token)
		return t, result.Err
	case <-ctx.Done():
		return nil, mcp.GivenUp(ctx, false)
	}
}

// beginWork makes Close wait for one more renewal; it returns false after Close.
func (l *Logins) beginWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Add(1)
	}
	return !l.closed
}

// renew returns a new token in place of old, or the current one if old has been replaced already.
func (l *Logins) renew(ctx context.Context, server *registry.Server, r ref, old *token) (*token, error) {
	return l.renewOnce(ctx, r, func(ctx context.Context) (*token, error) {
		current, _ := l.vault.token(r)
		switch {
		case current == nil:
			return nil, loginRequired("you are no longer logged in to MCP server %s: run `pawl mcp login %[1]s`", server.ID)
		case current != old:
			return current, nil // another request has renewed it
		}
		renewed, err := l.refresh(ctx, server, old)
		if err != nil {
			if current := l.renewedElsewhere(ctx, r, old, err); current != nil {
				return current, nil
			}
			return nil, l.renewalFailed(server, r, old, err)
		}
		t := *old
		t.Access, t.Expiry, t.Obtained, t.Refresh = renewed.Access, renewed.Expiry, renewed.Obtained, cmp.Or(renewed.Refresh, old.Refresh)
		if renewed.Scopes != nil {
			t.Scopes = renewed.Scopes
		}
		return l.replace(ctx, server, r, &t, old)
	})
}

// replace stores a renewed token and returns it. If the user logged in or out meanwhile, it returns the token of that login, or an error.
func (l *Logins) replace(ctx context.Context, server *registry.Server, r ref, t, old *token) (*token, error) {
	isCurrent, err := l.vault.put(r, t, old)
	if err != nil {
		l.deps.Log.ErrorContext(ctx, "a renewed login could not be stored: its user will have to log in again after a restart",
			"mcp_id", server.ID, "user", r.user, "error", err)
	}
	if isCurrent {
		return t, nil
	}
	if current, _ := l.vault.token(r); current != nil {
		return current, nil
	}
	return nil, loginRequired("you are no longer logged in to MCP server %s: run `pawl mcp login %[1]s`", server.ID)
}

// refresh requests a token with the refresh token (RFC 6749, 6).
func (l *Logins) refresh(ctx context.Context, server *registry.Server, old *token) (*token, error) {
	c, err := l.clientOf(server, old)
	if err != nil {
		return nil, err
	}
	w := l.web(server)
	defer w.close()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}, "resource": {old.Resource}}
	return l.requestToken(ctx, w, old.Endpoint, old.Issuer, c, form)
}

// renewalFailed returns the error of a failed renewal. If the server refused the renewal, it also records that a new login is needed; otherwise
// a later renewal may succeed.
func (l *Logins) renewalFailed(server *registry.Server, r ref, old *token, err error) error {
	var d *tokenRefusal
	if !errors.As(err, &d) {
		return withServer(server, "renewing the login", err)
	}
	l.vault.dropRefresh(r, old)
	l.recordNeed(r, challenge{}, false)
	return loginRequired("the login to MCP server %s has ended (%s): run `pawl mcp login %[1]s`", server.ID, d.Error())
}

// obtainForPool logs the pool itself in (client credentials), unless there is a token newer than old.
func (l *Logins) obtainForPool(ctx context.Context, server *registry.Server, r ref, old *token, c challenge) (*token, error) {
	return l.renewOnce(ctx, r, func(ctx context.Context) (*token, error) {
		if current, _ := l.vault.token(r); current != nil && current != old {
			return current, nil
		}
		t, err := l.requestForPool(ctx, server, c)
		if err != nil {
			return nil, withServer(server, "logging the pool in", err)
		}
		if err := l.vault.bind(bindingKey(server), t.Issuer); err != nil {
			return nil, withServer(server, "logging the pool in", err)
		}
		if _, err := l.vault.put(r, t, nil); err != nil {
			l.deps.Log.WarnContext(ctx, "a token of the pool could not be stored", "mcp_id", server.ID, "error", err)
		}
		return t, nil
	})
}

// requestForPool requests a token for the pool itself.
func (l *Logins) requestForPool(ctx context.Context, server *registry.Server, c challenge) (*token, error) {
	address, err := url.Parse(server.HTTP.URL)
	if err != nil {
		return nil, refused("its url cannot be read: %w", err)
	}
	w := l.web(server)
	defer w.close()
	info, err := discover(ctx, w, address, c, l.vault.boundTo(bindingKey(server)))
	if err != nil {
		return nil, err
	}
	pool, err := l.configuredClient(server, info.authority)
	if err != nil {
		return nil, err
	}
	scopes := server.HTTP.OAuth.Scopes
	for _, fallback := range [][]string{c.scopes, info.scopes} {
		if len(scopes) == 0 {
			scopes = fallback
		}
	}
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {info.resource}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	t, err := l.requestToken(ctx, w, info.authority.Token, info.authority.Issuer, pool, form)
	if err != nil {
		return nil, err
	}
	t.complete(info, pool, scopes)
	t.Refresh = "" // instead of a renewal, the pool requests a new token
	return t, nil
}
