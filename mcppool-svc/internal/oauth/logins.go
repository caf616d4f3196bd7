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
	"pawl.dev/services/seal"
)

// The errors of logins. Errors caused by servers are *mcp.Error.
var (
	ErrRedirect     = errors.New("the redirect address of the login cannot be used")
	ErrUnknownLogin = errors.New("there is no such login of yours: it was finished, replaced by a later one, or is older than 10 minutes")
	ErrNoLogin      = errors.New("users do not log in to the server")
	ErrAnswer       = errors.New("the answer of the authorization server is refused")
	ErrStorage      = errors.New("storing failed")
)

// Config configures Logins.
type Config struct {
	RedirectURI    string    // the address to which browsers return if the caller names none; may be empty
	ClientMetadata string    // the https address of the pool's Client ID Metadata Document; may be empty
	Box            *seal.Box // encrypts the stored logins
}

// Deps are the dependencies of Logins.
type Deps struct {
	Store store.Store
	// Client makes an HTTP client that checks addresses by the rules for the server.
	Client func(*registry.Server) *http.Client
	// Secret resolves references to secrets in a value of the server's settings.
	Secret func(server *registry.Server, value string) (string, error)
	Now    func() time.Time
	Log    *slog.Logger
	// CatchUp applies the changes of other replicas of the pool; nil if there are none.
	CatchUp func(context.Context)
}

// Logins begins, finishes, stores and renews logins. It is safe for concurrent use.
type Logins struct {
	cfg   Config
	deps  Deps
	vault *vault

	base     context.Context // ends with Close, and ends renewals
	cancel   context.CancelFunc
	work     sync.WaitGroup     // renewals
	renewals singleflight.Group // by ref.key

	mu     sync.Mutex
	closed bool                  // guarded by mu
	open   map[string]*openLogin // guarded by mu; by state
	needs  map[ref]need          // guarded by mu
}

// need is a server's last refusal of a request that lacked a login, or rights.
type need struct {
	challenge challenge
	more      bool // the login is valid, but has too few rights
	at        time.Time
}

// maxNeeds bounds the needs that are kept; the oldest is dropped.
const maxNeeds = 10_000

// New reads the stored logins. The caller closes the result.
func New(cfg Config, deps Deps) (*Logins, error) {
	v, lost, err := openVault(deps.Store, cfg.Box)
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
		open: make(map[string]*openLogin), needs: make(map[ref]need),
	}, nil
}

// Close cancels the renewals in progress and waits for them.
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

// canHaveLogin reports whether requests to a server can carry a login: a user's, or the pool's own.
func canHaveLogin(server *registry.Server) bool {
	if server.HTTP == nil || server.Isolation == registry.Shared && !isPoolLogin(server) {
		return false // a connection of all users cannot use the login of one user
	}
	// An Authorization header in the registration would compete with the login.
	for name := range server.HTTP.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			return false
		}
	}
	return true
}

// isPoolLogin reports whether the pool itself logs in to a server, for all users.
func isPoolLogin(server *registry.Server) bool {
	return server.HTTP.OAuth != nil && server.HTTP.OAuth.Grant == registry.GrantClientCredentials
}

// refFor returns the ref of the token that a user's requests to a server carry.
func refFor(server *registry.Server, user string) ref {
	if isPoolLogin(server) {
		user = ""
	}
	return ref{user, server.Origin()}
}

// State is the state of a user's login to a server.
type State int

// The states.
const (
	Unasked  State = iota // the server has not asked for a login
	Required              // the server asks for a login, or for a new one
	Active                // there is a login
)

// State returns the state of a user's login to a server.
func (l *Logins) State(server *registry.Server, user string) State {
	if !canHaveLogin(server) {
		return Unasked
	}
	r := refFor(server, user)
	l.mu.Lock()
	_, needed := l.needs[r]
	l.mu.Unlock()
	t, sealed := l.vault.token(r)
	switch {
	case needed, sealed, t != nil && t.Refresh == "" && t.expired(l.now()) && !isPoolLogin(server):
		return Required
	case t != nil:
		return Active
	default:
		return Unasked
	}
}

// Forget deletes the login of a user's requests to a server, and revokes it if possible. For an operator or the server's owner it also removes the
// binding of a configured client to its authorization server. It returns ErrNoLogin if the server can have no login, or if the login is the
// pool's own and the user is neither an operator nor the server's owner.
func (l *Logins) Forget(ctx context.Context, server *registry.Server, user string, operator bool) error {
	mayChange := operator || server.Owner == user
	if !canHaveLogin(server) || isPoolLogin(server) && !mayChange {
		return ErrNoLogin
	}
	if mayChange {
		if err := l.vault.bind(bindingKey(server), ""); err != nil {
			return err
		}
	}
	r := refFor(server, user)
	deleted, err := l.vault.remove(func(o ref) bool { return o == r })
	if err != nil {
		return err
	}
	l.clearNeed(r)
	for _, t := range deleted {
		if err := l.revoke(ctx, server, t); err != nil {
			l.deps.Log.InfoContext(ctx, "a token was deleted, but could not be revoked", "mcp_id", server.ID, "error", err)
		}
	}
	return nil
}

// ForgetServer deletes all logins to a server that was removed, or whose origin changed.
func (l *Logins) ForgetServer(server *registry.Server) error {
	origin := server.Origin()
	_, err := l.vault.remove(func(r ref) bool { return r.origin == origin })
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.needs {
		if r.origin == origin {
			delete(l.needs, r)
		}
	}
	for state, o := range l.open {
		if o.ref.origin == origin {
			delete(l.open, state)
		}
	}
	return err
}

// recordNeed stores what a server asks for.
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

// loginRequired returns the error of a request that needs a login.
func loginRequired(format string, args ...any) *mcp.Error {
	return mcp.Errorf(mcp.LoginRequired, format, args...)
}
