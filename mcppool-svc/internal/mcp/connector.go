package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/mcppool-svc/internal/outbound"
	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
)

// DefaultMaxMessage is the longest message that a server may send.
const DefaultMaxMessage = 32 << 20

// OpenBuiltin makes a server that runs in this process; the closer ends it.
type OpenBuiltin func(root string) (*server.MCPServer, io.Closer, error)

// Config configures a Connector.
type Config struct {
	Version    string   // of this program, for the servers
	MaxMessage int      // bytes; DefaultMaxMessage if 0
	Environ    []string // the environment that children inherit from, and that references are resolved in
	Builtins   map[string]OpenBuiltin
	Functions  map[string][]Function // built-in servers that are Go functions
	// ChildLimits bound each process of a child.
	ChildLimits process.Limits
	// AllowAddresses are ranges that servers of plain users, and redirects, may lead to beside public ones.
	AllowAddresses []netip.Prefix
	// Credentials returns the tokens of a user's connection to a server; it and its result may be nil.
	Credentials func(s *registry.Server, user string) outbound.Credentials
	// TransportHints remember how servers were reached; may be nil.
	TransportHints Memory
	// AnonymousElicitors remember which servers ask without naming the call; may be nil.
	AnonymousElicitors Memory
}

// Connector makes connections.
type Connector struct {
	cfg      Config
	log      *slog.Logger
	launcher *process.Launcher
}

// NewConnector makes a Connector; Close it once all its connections are closed.
func NewConnector(cfg Config, log *slog.Logger) *Connector {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = DefaultMaxMessage
	}
	return &Connector{cfg: cfg, log: log, launcher: process.NewLauncher()}
}

// Close ends the thread that starts children.
func (c *Connector) Close() { c.launcher.Close() }

// expand resolves references in values that an operator configured.
func (c *Connector) expand(s *registry.Server, values map[string]string) (map[string]string, error) {
	out, err := s.Expand(values, func(name string) (string, bool) { return process.Getenv(c.cfg.Environ, name) })
	if err != nil {
		return nil, Errorf(Misconfigured, "%w", err)
	}
	return out, nil
}

// Secrets resolves references in one value of a server's settings.
func Secrets(environ []string) func(*registry.Server, string) (string, error) {
	return func(s *registry.Server, value string) (string, error) {
		const name = "oauth.client_secret"
		out, err := (&Connector{cfg: Config{Environ: environ}}).expand(s, map[string]string{name: value})
		return out[name], err
	}
}

// literal makes a redactor of values that must not show up in messages: a server may echo its secrets.
func literal(values map[string]string) *strings.Replacer {
	const short = 6 // shorter ones are no secrets, and would garble any text
	var pairs []string
	for _, v := range values {
		if len(v) >= short {
			pairs = append(pairs, v, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// Memory remembers the route that worked for a server, by registry.Server.Origin, so that routes that it refuses are not tried each time. If
// the remembered route fails, the others are tried.
type Memory interface {
	// Recall returns the route that was remembered recently, or "".
	Recall(origin string) string
	// Remember replaces it; an empty way forgets.
	Remember(origin, way string)
}

// route is a transport and the kind of its revisions, by the name that is remembered.
type route string

const (
	// byDiscovery comes first over HTTP, as the specification has it for clients of both eras: a server that can be asked
	// statelessly is one that any pool can ask.
	byDiscovery route = "discovery"
	// byHandshake comes first otherwise: a child process belongs to one pool in any case, it is cheaper than the revisions
	// without one, and discovery costs 5 s with a server that ignores unknown requests.
	byHandshake route = "handshake"
	byEvents    route = "sse" // the older HTTP transport
)

// routesOf returns the routes to reach a server, the one that worked last time first.
func routesOf(s *registry.Server, remembered string) []route {
	routes := []route{byHandshake}
	switch {
	case s.HTTP != nil && s.HTTP.SSE:
		return []route{byEvents}
	case s.HTTP != nil:
		routes = []route{byDiscovery, byHandshake, byEvents}
	case s.Stdio != nil:
		routes = []route{byHandshake, byDiscovery}
	}
	if i := slices.Index(routes, route(remembered)); i > 0 {
		last := routes[i]
		routes = slices.Insert(slices.Delete(routes, i, i+1), 0, last)
	}
	return routes
}

// Connect starts or reaches a server for a user and shakes hands. ctx bounds that, not the life of the connection. The error is an
// *Error whose message says how to correct it.
func (c *Connector) Connect(ctx context.Context, s *registry.Server, user string) (Client, error) {
	if s.Builtin != nil && c.cfg.Functions[s.Builtin.Name] != nil {
		return c.connectFunctions(s.Builtin.Name, c.cfg.Functions[s.Builtin.Name]), nil
	}
	origin := s.Origin()
	remembered := recall(c.cfg.TransportHints, origin)
	var first error
	for _, w := range routesOf(s, remembered) {
		conn, err := c.connectBy(ctx, s, user, w)
		if err == nil {
			if w == routesOf(s, "")[0] {
				w = "" // the default first route need not be remembered
			}
			learn(c.cfg.TransportHints, origin, remembered, string(w))
			conn.unnamed = sync.OnceFunc(func() { // it asks without naming the call, until its registration changes
				learn(c.cfg.AnonymousElicitors, origin, recall(c.cfg.AnonymousElicitors, origin), "asks")
			})
			return conn, nil
		}
		if first == nil || w == byHandshake || saysMore(err, w) {
			first = err // the error of a handshake tells people most
		}
		if !refuses(err) && (string(w) != remembered || !outdated(err)) {
			break
		}
		c.log.DebugContext(ctx, "an MCP server refuses a way to speak to it; trying the next", "mcp_id", s.ID, "way", w, "error", err)
	}
	learn(c.cfg.TransportHints, origin, remembered, "") // the remembered route may be wrong
	return nil, first
}

func recall(m Memory, origin string) string {
	if m == nil {
		return ""
	}
	return m.Recall(origin)
}

func learn(m Memory, origin, remembered, way string) {
	if m != nil && way != remembered {
		m.Remember(origin, way)
	}
}

// saysMore reports whether the error of a later way tells more than that of the first: the server knows the way.
func saysMore(err error, w route) bool {
	if As(err).Kind == LoginRequired {
		return true
	}
	return w == byEvents && !errors.Is(err, errNoStream) && As(err).Kind != Unavailable
}

// refuses reports whether a server does not know a way to speak to it, as opposed to other errors.
func refuses(err error) bool {
	e := As(err)
	return errors.Is(err, errOtherWay) || errors.Is(err, errNoStream) ||
		e.Kind == Answered && (e.Code == mcp.METHOD_NOT_FOUND || e.Code == mcp.UNSUPPORTED_PROTOCOL_VERSION)
}

// outdated reports whether the remembered way may be the reason for an error: something answered, but not as before.
func outdated(err error) bool {
	e := As(err)
	answered, ok := errors.AsType[*statusError](err)
	return e.Kind == Protocol || e.Kind == Answered || e.Kind == Unavailable && ok && !statusPasses(answered.status)
}

func (c *Connector) connectBy(ctx context.Context, s *registry.Server, user string, w route) (*client, error) {
	switch {
	case s.Builtin != nil:
		return c.connectBuiltin(ctx, s)
	case s.HTTP != nil:
		return c.connectHTTP(ctx, s, user, w)
	case s.Stdio != nil && w == byDiscovery:
		return c.connectStdio(ctx, s, modern)
	case s.Stdio != nil:
		return c.connectStdio(ctx, s, legacy)
	}
	return nil, Errorf(Misconfigured, "server %s has no transport", s.ID)
}

// CheckSecrets checks that the references of a registration can be resolved.
func (c *Connector) CheckSecrets(s *registry.Server) error {
	var values map[string]string
	switch {
	case s.Stdio != nil:
		values = s.Stdio.Env
	case s.HTTP != nil:
		values = s.HTTP.Headers
	}
	_, err := c.expand(s, values)
	if err == nil && s.HTTP != nil && s.HTTP.OAuth != nil {
		_, err = Secrets(c.cfg.Environ)(s, s.HTTP.OAuth.ClientSecret)
	}
	return err
}

// CheckTarget looks for a server's program, or connects to its address without a request, and returns what it found.
func (c *Connector) CheckTarget(ctx context.Context, s *registry.Server) (found string, err error) {
	switch {
	case s.Stdio != nil:
		env, err := c.expand(s, s.Stdio.Env)
		if err != nil {
			return "", err
		}
		path, _ := process.Getenv(process.Environ(c.cfg.Environ, env), "PATH")
		if found, err = process.Find(s.Stdio.Command, path, s.Stdio.Dir); err != nil {
			return "", Errorf(Misconfigured, "%w", err)
		}
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "", Errorf(Misconfigured, "its url cannot be read: %w", err)
		}
		if found, err = outbound.Probe(ctx, u, c.cfg.AllowAddresses, s.HTTP.PublicOnly); err != nil {
			return "", As(err)
		}
	case s.Builtin != nil && c.cfg.Builtins[s.Builtin.Name] == nil && c.cfg.Functions[s.Builtin.Name] == nil:
		return "", Errorf(Misconfigured, "there is no built-in server %q", s.Builtin.Name)
	case s.Builtin != nil:
		found = "the built-in server " + s.Builtin.Name
	default:
		return "", Errorf(Misconfigured, "it has no transport")
	}
	return found, nil
}
