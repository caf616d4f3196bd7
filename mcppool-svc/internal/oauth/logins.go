package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/mcppool-svc/internal/store"
)

// The errors of logins. Errors of servers are *mcp.Error.
var (
	ErrRedirect     = errors.New("the browser cannot be sent there")
	ErrUnknownLogin = errors.New("there is no such login of yours: it was finished, replaced by a later one, or is older than 10 minutes")
	ErrNoLogin      = errors.New("the server has no logins of users")
	ErrAnswer       = errors.New("the answer of the authorization server is refused")
	ErrStorage      = errors.New("storing failed")
)

// Config configures Logins.
type Config struct {
	RedirectURI    string // where browsers are sent if the caller names no address; may be empty
	ClientMetadata string // the https address of the pool's Client ID Metadata Document; may be empty
	Key            []byte // encrypts the stored logins
}

// Deps are the dependencies of Logins.
type Deps struct {
	Store store.Store
	// Client makes an HTTP client that checks addresses as for that server.
	Client func(*registry.Server) *http.Client
	// Secret replaces references to secrets in a value of that server's settings.
	Secret func(server *registry.Server, value string) (string, error)
	Now    func() time.Time
	Log    *slog.Logger
	// CatchUp applies the changes of other replicas of the pool; nil if there are none.
	CatchUp func(context.Context)
}

// Logins is safe for concurrent use.
type Logins struct {
	cfg   Config
	deps  Deps
	vault *vault

	base     context.Context // ends with Close; renewals hang on it
	cancel   context.CancelFunc
	work     sync.WaitGroup     // renewals
	renewals singleflight.Group // by ref.key

	mu     sync.Mutex
	closed bool             // guarded by mu
	open   map[string]*open // guarded by mu; logins that were begun, by state
	needs  map[ref]need     // guarded by mu
}

// need is what a server asked for and the login does not have.
type need struct {
	challenge challenge
	more      bool // the login is good, but its rights are not enough
	at        time.Time
}

// maxNeeds bounds the needs that are kept; the oldest is dropped.
const maxNeeds = 10_000

// New reads the stored logins. Close the result.
func New(cfg Config, deps Deps) (*Logins, error) {
	v, lost, err := openVault(deps.Store, cfg.Key)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		deps.Log.Error("stored logins to MCP servers cannot be read with this key; restore the key (--token-key), or let users log in again",
			"logins", lost)
	}
	base, cancel := context.WithCancel(context.Background())
	return &Logins{
		cfg: cfg, deps: deps, vault: v, base: base, cancel: cancel,
		open: make(map[string]*open), needs: make(map[ref]need),
	}, nil
}

// Close ends renewals that are under way.
func (l *Logins) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.work.Wait()
	return nil
}

func (l *Logins) now() time.Time { return l.deps.Now() }

func (l *Logins) web(server *registry.Server) *web { return newWeb(l.deps.Client(server)) }

// possible reports whether a server can have logins: a key in its headers rules them out.
func possible(server *registry.Server) bool {
	if server.HTTP == nil || server.Isolation == registry.Shared && !byPool(server) {
		return false // a connection of all users carries no user's login
	}
	for name := range server.HTTP.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	return true
}

// byPool reports whether the pool itself logs in to a server, for all users.
func byPool(server *registry.Server) bool {
	return server.HTTP.OAuth != nil && server.HTTP.OAuth.Grant == registry.GrantClientCredentials
}

// refFor names the token that a user's requests to a server carry.
func refFor(server *registry.Server, user string) ref {
	if byPool(server) {
		user = ""
	}
	return ref{user, server.Origin()}
}

// State is the state of a user's login to a server.
type State int

// The states.
const (
	Unasked  State = iota // the server never asked for a login
	Required              // it asks for one, or another one
	Active                // there is one
)

// State returns the state of a user's login to a server.
func (l *Logins) State(server *registry.Server, user string) State {
	if !possible(server) {
		return Unasked
	}
	r := refFor(server, user)
	l.mu.Lock()
	_, needed := l.needs[r]
	l.mu.Unlock()
	t, sealed := l.vault.token(r)
	switch {
	case needed, sealed, t != nil && t.Refresh == "" && t.expired(l.now()) && !byPool(server):
		return Required
	case t != nil:
		return Active
	default:
		return Unasked
	}
}

// Forget deletes a user's login to a server and revokes it if possible. The pool's own login, and the binding of a configured
// client to its authorization server, only an operator or the server's owner can delete; for others it returns ErrNoLogin.
func (l *Logins) Forget(ctx context.Context, server *registry.Server, user string, operator bool) error {
	mayChange := operator || server.Owner == user
	if !possible(server) || byPool(server) && !mayChange {
		return ErrNoLogin
	}
	if mayChange {
		if err := l.vault.bind(bindingKey(server), ""); err != nil {
			return err
		}
	}
	r := refFor(server, user)
	gone, err := l.vault.remove(func(o ref) bool { return o == r })
	if err != nil {
		return err
	}
	l.clearNeed(r)
	for _, t := range gone {
		if err := l.revoke(ctx, server, t); err != nil {
			l.deps.Log.InfoContext(ctx, "a token was forgotten, but not revoked", "mcp_id", server.ID, "error", err)
		}
	}
	return nil
}

// ForgetServer deletes all logins to a server that is gone, or has moved.
func (l *Logins) ForgetServer(server *registry.Server) error {
	where := server.Origin()
	_, err := l.vault.remove(func(o ref) bool { return o.origin == where })
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.needs {
		if r.origin == where {
			delete(l.needs, r)
		}
	}
	for state, o := range l.open {
		if o.ref.origin == where {
			delete(l.open, state)
		}
	}
	return err
}

// recordNeed remembers what a server asks for.
func (l *Logins) recordNeed(r ref, c challenge, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.needs[r]; !known && len(l.needs) >= maxNeeds {
		delete(l.needs, store.Oldest(l.needs, func(n need) time.Time { return n.at }))
	}
	l.needs[r] = need{challenge: c, more: more, at: l.now()}
}

// clearNeed forgets what a server asked for.
func (l *Logins) clearNeed(r ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.needs, r)
}

// loginRequired is the error of a request that needs a login.
func loginRequired(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.LoginRequired, format, args...)
}
