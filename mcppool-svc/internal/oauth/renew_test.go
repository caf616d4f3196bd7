package oauth

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/mcppool-svc/internal/store"
)

func (r *rig) move(d time.Duration) { r.ahead.Add(int64(d)) }

// Requests at once share one renewal. The next renewal uses the refresh token that came with it.
func TestRenewalIsSharedAndRotates(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, mcptest.Guard{})
	r.login("ann")
	for round := 1; round <= 3; round++ {
		r.move(9*time.Minute + 30*time.Second)
		_, release := r.auth.Hold()
		var wg sync.WaitGroup
		tokens := make(chan string, 20)
		for range 20 {
			wg.Go(func() {
				token, err := r.logins.For(r.server, "ann").Token(t.Context())
				if err != nil {
					t.Error(err)
				}
				tokens <- token
			})
		}
		// A request that gives up changes nothing for the others.
		if _, err := r.logins.For(r.server, "ann").Token(cancelled(t)); err != nil && kindOf(err) != mcp.Interrupted {
			t.Error(err)
		}
		release()
		wg.Wait()
		close(tokens)
		first := <-tokens
		for token := range tokens {
			if token != first {
				t.Errorf("two tokens of one renewal")
			}
		}
		if n := r.auth.Grants("refresh_token"); n != round {
			t.Fatalf("%d renewals in round %d", n, round)
		}
		r.works("ann")
	}
}

// A server that keeps its refresh tokens sends none with the next token.
func TestRenewalWithoutRotation(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{KeepRefresh: true, Token: mcptest.Fields{"scope": nil}}, mcptest.Guard{Ask: "a"})
	r.login("ann")
	for n := 1; n <= 2; n++ {
		r.move(time.Hour)
		r.works("ann")
		if got := r.auth.Grants("refresh_token"); got != n {
			t.Errorf("%d renewals", got)
		}
	}
	if token, _ := r.logins.vault.token(refFor(r.server, "ann")); strings.Join(token.Scopes, " ") != "a" {
		t.Errorf("scopes %q", token.Scopes)
	}
}

// A renewal that is refused ends the login; one that fails for a while does not.
func TestRenewalFails(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
		r.login("ann")
		r.move(time.Hour)
		r.auth.With(func(a *mcptest.Authority) {
			a.Switches.Replies = map[string]mcptest.Reply{"/token": {Status: 400, Body: `{"error":"invalid_grant"}`}}
		})
		_, err := r.request("ann", "tools/list")
		wantKind(t, err, mcp.LoginRequired, "run `pawl mcp login web`")
		if r.logins.State(r.server, "ann") != Required {
			t.Error("the state is not Required")
		}
		_, err = r.request("ann", "tools/list")
		wantKind(t, err, mcp.LoginRequired, "run `pawl mcp login web`")
		if n := r.auth.Grants("refresh_token"); n != 1 {
			t.Errorf("%d renewals", n)
		}
		r.auth.With(func(a *mcptest.Authority) { a.Switches.Replies = nil })
		r.login("ann")
		r.works("ann")
	})
	t.Run("for a while", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"expires_in": 600}}, mcptest.Guard{})
		r.login("ann")
		r.auth.With(func(a *mcptest.Authority) { a.Switches.Replies = map[string]mcptest.Reply{"/token": {Status: 503}} })
		r.move(9*time.Minute + 30*time.Second)
		r.works("ann") // the token is still good
		r.move(time.Minute)
		_, err := r.request("ann", "tools/list")
		wantKind(t, err, mcp.Unavailable, "renewing the login to MCP server web")
		r.auth.With(func(a *mcptest.Authority) { a.Switches.Replies = nil })
		r.works("ann")
	})
	t.Run("nothing to renew with", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"refresh_token": nil, "expires_in": 60}}, mcptest.Guard{})
		r.login("ann")
		r.works("ann")
		r.move(time.Minute)
		_, err := r.request("ann", "tools/list")
		wantKind(t, err, mcp.LoginRequired, "has expired: run `pawl mcp login web`")
		if r.logins.State(r.server, "ann") != Required {
			t.Error("the state is not Required")
		}
	})
	t.Run("another client is configured", func(t *testing.T) {
		r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
		r.configure(oauthOf("configured", "configured-secret"))
		r.login("ann")
		r.move(time.Hour)
		r.configure(oauthOf("other", "other-secret"))
		_, err := r.request("ann", "tools/list")
		wantKind(t, err, mcp.LoginRequired, "has changed since you logged in")
	})
}

// A token that the server refuses is renewed once; if it refuses the new one too, the login has ended.
func TestRefusedTokens(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	r.auth.Revoke()
	r.works("ann")
	r.web.With(func(w *mcptest.Resource) { w.Guard.Challenge = `Bearer error="invalid_token"` })
	r.auth.With(func(a *mcptest.Authority) {
		a.Switches.Replies = map[string]mcptest.Reply{"/token": {Body: `{"access_token":"wrong","token_type":"Bearer","refresh_token":"r"}`}}
	})
	r.auth.Revoke()
	_, err := r.request("ann", "tools/list")
	wantKind(t, err, mcp.LoginRequired, "no longer accepts the login")
	if n := r.auth.Grants("refresh_token"); n != 2 {
		t.Errorf("%d renewals", n)
	}

	r = newRig(t, Config{}, mcptest.Switches{Token: mcptest.Fields{"refresh_token": nil}}, mcptest.Guard{})
	r.login("ann")
	r.auth.Revoke()
	_, err = r.request("ann", "tools/list")
	wantKind(t, err, mcp.LoginRequired, "no longer accepts the login")

	// A refusal that is not about logins stays what it is.
	r.web.With(func(w *mcptest.Resource) { w.Guard.Challenge = `Basic realm="x"` })
	if status, err := r.request("bob", "tools/list"); status != http.StatusUnauthorized || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

// A user who logs out while a token is being renewed stays logged out.
func TestLogoutDuringRenewal(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	r.move(time.Hour)
	arrived, release := r.auth.Hold()
	defer release()
	renewed := make(chan error, 1)
	go func() {
		_, err := r.logins.For(r.server, "ann").Token(t.Context())
		renewed <- err
	}()
	<-arrived
	if _, err := r.logins.vault.remove(func(o ref) bool { return o.user == "ann" }); err != nil {
		t.Fatal(err)
	}
	release()
	if err := <-renewed; kindOf(err) != mcp.LoginRequired {
		t.Errorf("error = %v", err)
	}
	if token, _ := r.logins.vault.token(refFor(r.server, "ann")); token != nil {
		t.Error("the login is back")
	}
}

func TestClosedLoginsRenewNothing(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	r.login("ann")
	r.move(time.Hour)
	if err := r.logins.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := r.request("ann", "tools/list")
	wantKind(t, err, mcp.Unavailable, "stopping")
}

// failing is a store whose writes fail when told.
type failing struct {
	store.Store
	err error
}

func (f *failing) Apply(changes ...store.Change) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.Apply(changes...)
}

// A renewed token that cannot be stored is still used, since the previous one may no longer be valid. A new login that cannot be
// stored fails.
func TestStorageFails(t *testing.T) {
	r := newRig(t, Config{}, mcptest.Switches{}, mcptest.Guard{})
	disk := &failing{Store: r.store}
	r.store = disk
	r.logins = r.openLogins(Config{})
	r.login("ann")
	disk.err = errors.New("disk full")
	r.move(time.Hour)
	r.works("ann")
	if !strings.Contains(r.log.String(), "disk full") {
		t.Error("the failure is not reported")
	}
	if _, err := r.tryLogin("bob"); !errors.Is(err, ErrStorage) {
		t.Errorf("a login: %v", err)
	}
	if err := r.logins.Forget(t.Context(), r.server, "ann", false); !errors.Is(err, ErrStorage) {
		t.Errorf("a logout: %v", err)
	}
}
