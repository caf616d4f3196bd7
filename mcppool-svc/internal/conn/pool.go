package conn

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pawl.dev/mcppool-svc/internal/catalog"
	"pawl.dev/mcppool-svc/internal/mcp"
	"pawl.dev/mcppool-svc/internal/registry"
)

// Config bounds the pool. A zero value means the default, which the comment names.
type Config struct {
	MaxConnections int           // in all; 1,000
	MaxPerUser     int           // 100
	IdleTimeout    time.Duration // of a connection without leases and sessions; 5 minutes
	SessionTimeout time.Duration // of a session whose connection has no leases; 30 minutes
	BreakAfter     int           // failed connects in a row, per user and server, after which the pool stops connecting; 5
	BreakFor       time.Duration // how long it stops; 30 s
	ProbeAfter     time.Duration // reading a server's state probes connections that were confirmed longer ago, see entry.confirmed; 10 s
	// Exclusive reports whether a server asks for input without naming the call; nil: no server does. Only one call at a time runs over a
	// connection to such a server, so that each question belongs to one call. Concurrent calls get further connections, or wait for their turn
	// if a limit is reached. Requests other than calls use the first connection. Shared connections are not exclusive.
	Exclusive func(*registry.Server) bool
}

func (c Config) withDefaults() Config {
	c.MaxConnections = cmp.Or(c.MaxConnections, 1000)
	c.MaxPerUser = cmp.Or(c.MaxPerUser, 100)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 5*time.Minute)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, 30*time.Minute)
	c.BreakAfter = cmp.Or(c.BreakAfter, 5)
	c.BreakFor = cmp.Or(c.BreakFor, 30*time.Second)
	c.ProbeAfter = cmp.Or(c.ProbeAfter, 10*time.Second)
	return c
}

// Connect makes a user's connection. ctx bounds only the attempt to connect. Errors are *mcp.Error.
type Connect func(ctx context.Context, server *registry.Server, user string) (mcp.Client, error)

// Pool makes, shares and closes connections. It is safe for concurrent use.
type Pool struct {
	cfg     Config
	connect Connect
	log     *slog.Logger
	changed func(uid, user string) // see Observe
	watched func(user string) bool // see SetWatched

	tools   *catalog.Interner // for all connections
	refused atomic.Uint64     // uses refused because of a limit

	base   context.Context // done after Close, which also ends connects
	cancel context.CancelFunc
	work   sync.WaitGroup // goroutines that connect, watch, probe or close

	mu      sync.Mutex
	closed  bool              // guarded by mu
	entries map[key][]*entry  // guarded by mu; those not retired, by the key of the first connection, ordered by nth
	newest  uint64            // guarded by mu; number of the newest entry
	live    map[*entry]bool   // guarded by mu; every entry that is connecting or not yet closed, retired ones too
	failed  map[key]*failure  // guarded by mu; by key.failureKey; the last failure, until the next success
	queues  map[key][]*waiter // guarded by mu; calls that wait for a connection, by the key of the first connection
}

// entry is one connection, from the first request for it until it is closed. The fields from client on are written with
// the pool's mu held; those marked "after ready" do not change once ready is closed and may then be read without mu.
type entry struct {
	key
	id     string        // the server's id, for logs
	ready  chan struct{} // closed once connected or failed
	begun  time.Time
	number uint64 // unique
	// retiredCh is closed when the entry is retired.
	retiredCh chan struct{}
	writes    *atomic.Uint64 // see Lease.Wrote; shared by all connections of a key

	client      mcp.Client               // after ready; nil while connecting, or if that failed
	connectedAt time.Time                // after ready
	tools       *catalog.Cache           // after ready
	err         error                    // after ready
	leases      int                      // not yet released
	running     int                      // leases of tool calls
	sessions    map[sessionKey]time.Time // when each was last used
	lastUsed    time.Time
	retired     bool // gets no new leases; closed after the last Release
	closing     bool // finish was called
	suspended   bool // see suspend

	confirmed time.Time     // when it connected, or last answered a probe; calls do not count
	probing   chan struct{} // closed when the running probe ends; nil if none
}

// New returns a pool. Start Run to close idle connections, and call Close to close all.
func New(cfg Config, connect Connect, log *slog.Logger) *Pool {
	base, cancel := context.WithCancel(context.Background())
	return &Pool{
		cfg: cfg.withDefaults(), connect: connect, log: log, base: base, cancel: cancel, tools: catalog.NewInterner(),
		entries: make(map[key][]*entry), live: make(map[*entry]bool), failed: make(map[key]*failure),
		queues: make(map[key][]*waiter),
	}
}

// leasable iterates over the entries that are not retired: those that a new use may get. Called with mu held.
func (p *Pool) leasable() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for e := range p.live {
			if !e.retired && !yield(e) {
				return
			}
		}
	}
}

// Close closes all connections and returns when they are gone.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	p.wake()
	for e := range p.live {
		p.retire(e)
		p.finish(e)
	}
	p.mu.Unlock()
	p.work.Wait()
}

// retire stops leasing an entry, and closes it if nothing keeps it open. Called with mu held.
func (p *Pool) retire(e *entry) {
	if !e.retired {
		close(e.retiredCh)
	}
	e.retired = true
	if e.leases == 0 {
		defer p.finish(e)
	}
	first := e.withNth(0)
	if i := slices.Index(p.entries[first], e); i >= 0 {
		if p.entries[first] = slices.Delete(p.entries[first], i, i+1); len(p.entries[first]) == 0 {
			delete(p.entries, first)
		}
		p.notify(e.key)
	}
	p.wake()
}

// finish closes an entry's connection in the background. Called with mu held, on a retired entry.
func (p *Pool) finish(e *entry) {
	if e.closing || e.client == nil {
		return // closed already, not connected, or still connecting (then establish closes it)
	}
	e.closing = true
	p.wake()
	p.work.Go(func() {
		if err := e.client.Close(); err != nil {
			p.log.Debug("closing a connection", "mcp_id", e.id, "error", err)
		}
		p.mu.Lock()
		delete(p.live, e)
		p.mu.Unlock()
	})
}

// key identifies a connection. The connections of a key are those whose keys differ from it at most in nth.
type key struct {
	server   string // registry.Server.UID
	user     string // empty if all users share it
	session  string // empty unless each session has its own
	revision string
	nth      int // 0: the first; further ones are for exclusive calls
}

// keyOf returns the key of a use's first connection.
func keyOf(use Use) key {
	k := key{server: use.Server.UID, user: use.User, revision: use.Server.Revision()}
	switch use.Server.Isolation {
	case registry.PerTask:
		k.session = use.Session // calls without a session share one connection
	case registry.Shared:
		k.user = ""
	case registry.PerUser:
	}
	return k
}

// failureKey returns the key under which failures are kept. A user's sessions share it. Further connections have a key of their own, because
// their failure proves nothing about the first connection.
func (k key) failureKey() key {
	k.session, k.nth = "", min(k.nth, 1)
	return k
}

// withNth returns the key of the nth connection.
func (k key) withNth(nth int) key {
	k.nth = nth
	return k
}

// sessionKey identifies a session: sessions of different users may have the same name.
type sessionKey struct{ user, session string }
