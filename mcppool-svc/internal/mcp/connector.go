package mcp

import (
	"context"
	"encoding/base64"
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

	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/mcppool-svc/internal/registry"
	"pawl.dev/services/outbound"
	"pawl.dev/services/serve"
)

// DefaultMaxMessage is the default of Config.MaxMessage.
const DefaultMaxMessage = 32 << 20

// OpenBuiltin makes a server that runs in this process, as it is registered; closing the closer ends the server.
type OpenBuiltin func(b *registry.Builtin) (*server.MCPServer, io.Closer, error)

// Config configures a Connector.
type Config struct {
	Version    string                 // of this program, for the servers
	Large      *serve.Budget          // for large messages that servers send; nil: not bounded
	MaxMessage int                    // bytes of a message that a server sends; DefaultMaxMessage if 0
	Environ    []string               // the pool's environment: children inherit some of it, and references name its variables
	Builtins   map[string]OpenBuiltin // by name
	Functions  map[string][]Function  // by name; built-in servers that are Go functions
	// ChildLimits bound each process of a child's group.
	ChildLimits process.Limits
	// AllowAddresses are the ranges, beside public addresses, in which servers of plain users and targets of redirects may be.
	AllowAddresses []netip.Prefix
	// Credentials returns the tokens of a user's connection to a server. Credentials and its result may be nil.
	Credentials func(s *registry.Server, user string) outbound.Credentials
	// TransportHints remembers the route to each server that is not reached by its default route; may be nil.
	TransportHints Memory
	// AnonymousElicitors remembers the servers that ask without naming the call; may be nil.
	AnonymousElicitors Memory
}

// Connector makes connections.
type Connector struct {
	cfg      Config
	log      *slog.Logger
	launcher *process.Launcher
}

// NewConnector makes a Connector. The caller closes it after all its connections.
func NewConnector(cfg Config, log *slog.Logger) *Connector {
	if cfg.MaxMessage == 0 {
		cfg.MaxMessage = DefaultMaxMessage
	}
	return &Connector{cfg: cfg, log: log, launcher: process.NewLauncher()}
}

// Close ends the thread that starts children.
func (c *Connector) Close() { c.launcher.Close() }

// expand resolves the references in a server's settings.
func (c *Connector) expand(s *registry.Server, values map[string]string) (map[string]string, error) {
	out, err := s.Expand(values, func(name string) (string, bool) { return process.Getenv(c.cfg.Environ, name) })
	if err != nil {
		return nil, Errorf(Misconfigured, "%w", err)
	}
	return out, nil
}

// Secrets returns a function that resolves the references in one value of a server's settings.
func Secrets(environ []string) func(*registry.Server, string) (string, error) {
	return func(s *registry.Server, value string) (string, error) {
		out, err := (&Connector{cfg: Config{Environ: environ}}).expand(s, map[string]string{"oauth.client_secret": value})
		return out["oauth.client_secret"], err
	}
}

// newRedactor returns a replacer that hides values in messages: a server may echo its secrets, a header's also without the scheme.
func newRedactor(values map[string]string) *strings.Replacer {
	const minLength = 6 // hiding shorter values would garble any text
	var secrets []string
	for _, v := range values {
		scheme, credentials, _ := strings.Cut(v, " ")
		secrets = append(secrets, v, credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "Basic") {
			_, password, _ := strings.Cut(string(plain), ":")
			secrets = append(secrets, string(plain), password)
		}
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the replacer prefers earlier ones
	var pairs []string
	for _, v := range secrets {
		if len(v) >= minLength {
			pairs = append(pairs, v, "***")
		}
	}
	return strings.NewReplacer(pairs...)
}

// Memory keeps one text for each server, by registry.Server.Origin, across restarts.
type Memory interface {
	// Recall returns the text, or "" if there is none or it is too old.
	Recall(origin string) string
	// Remember replaces the text; "" deletes it.
	Remember(origin, text string)
}

// route is a transport together with an era. Its text is kept in Config.TransportHints.
type route string

const (
	// byDiscovery is the first route over HTTP, as the specification requires of clients of both eras. It opens no session, so that
	// another replica of the pool can continue a call.
	byDiscovery route = "discovery"
	// byHandshake is the first route to servers that are not reached over HTTP. It is cheaper than discovery, which takes 5 s with a server that
	// ignores unknown requests.
	byHandshake route = "handshake"
	byEvents    route = "sse" // the older HTTP transport
)

// routesOf returns the routes to a server in the order in which they are tried, the remembered one first.
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
		routes = slices.Insert(slices.Delete(routes, i, i+1), 0, route(remembered))
	}
	return routes
}

// Connect starts or reaches a server for a user and makes the handshake. ctx bounds Connect, not the life of the connection. The error
// wraps an *Error whose message tells what to correct.
func (c *Connector) Connect(ctx context.Context, s *registry.Server, user string) (Client, error) {
	if s.Builtin != nil && c.cfg.Functions[s.Builtin.Name] != nil {
		return c.connectFunctions(s, c.cfg.Functions[s.Builtin.Name]), nil
	}
	origin := s.Origin()
	remembered := recall(c.cfg.TransportHints, origin)
	var reported error // the error of the handshake tells people most
	for _, r := range routesOf(s, remembered) {
		conn, err := c.connectBy(ctx, s, user, r)
		if err == nil {
			if r == routesOf(s, "")[0] {
				r = "" // the default first route need not be remembered
			}
			learn(c.cfg.TransportHints, origin, remembered, string(r))
			conn.onUnnamed = sync.OnceFunc(func() {
				learn(c.cfg.AnonymousElicitors, origin, recall(c.cfg.AnonymousElicitors, origin), "asks")
			})
			return conn, nil
		}
		if reported == nil || r == byHandshake || isMoreUseful(err, r) {
			reported = err
		}
		if !isRouteRefused(err) && (string(r) != remembered || !mayBeOutdated(err)) {
			break
		}
		c.log.DebugContext(ctx, "an MCP server does not support a transport or revision; trying the next", "mcp_id", s.ID, "route", r, "error", err)
	}
	learn(c.cfg.TransportHints, origin, remembered, "") // the remembered route may be wrong
	return nil, reported
}

func recall(m Memory, origin string) string {
	if m == nil {
		return ""
	}
	return m.Recall(origin)
}

func learn(m Memory, origin, remembered, text string) {
	if m != nil && text != remembered {
		m.Remember(origin, text)
	}
}

// isMoreUseful reports whether err, the error of route r, tells people more than the error of an earlier route, because the server supports r.
func isMoreUseful(err error, r route) bool {
	if As(err).Kind == LoginRequired {
		return true
	}
	return r == byEvents && !errors.Is(err, errNoStream) && As(err).Kind != Unavailable
}

// isRouteRefused reports whether the error means that the server does not support the route.
func isRouteRefused(err error) bool {
	e := As(err)
	return errors.Is(err, errOtherRoute) || errors.Is(err, errNoStream) ||
		e.Kind == Answered && (e.Code == mcp.METHOD_NOT_FOUND || e.Code == mcp.UNSUPPORTED_PROTOCOL_VERSION)
}

// mayBeOutdated reports whether the remembered route may be the reason for an error: the server answered, but not as before.
func mayBeOutdated(err error) bool {
	e := As(err)
	status, ok := errors.AsType[*statusError](err)
	return e.Kind == Protocol || e.Kind == Answered || e.Kind == Unavailable && ok && !isTransient(status.status)
}

func (c *Connector) connectBy(ctx context.Context, s *registry.Server, user string, r route) (*client, error) {
	switch {
	case s.Builtin != nil:
		return c.connectBuiltin(ctx, s)
	case s.HTTP != nil:
		return c.connectHTTP(ctx, s, user, r)
	case s.Stdio != nil && r == byDiscovery:
		return c.connectStdio(ctx, s, user, modern)
	case s.Stdio != nil:
		return c.connectStdio(ctx, s, user, legacy)
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

// CheckTarget looks for a server's program, or connects to its address without sending a request. If a proxy would
// be used, it does not connect. It returns a description of what it found.
func (c *Connector) CheckTarget(ctx context.Context, s *registry.Server) (found string, err error) {
	switch {
	case s.Stdio != nil:
		env, err := c.expand(s, s.Stdio.Env)
		if err != nil {
			return "", err
		}
		account, err := process.FindAccount(s.Stdio.User)
		if err != nil {
			return "", Errorf(Misconfigured, "%w", err)
		}
		path, _ := process.Getenv(process.Environ(c.cfg.Environ, env, account), "PATH")
		if found, err = process.Find(s.Stdio.Command, path, s.Stdio.Dir); err != nil {
			return "", Errorf(Misconfigured, "%w", err)
		}
	case s.HTTP != nil:
		u, err := url.Parse(s.HTTP.URL)
		if err != nil {
			return "", Errorf(Misconfigured, "its url cannot be read: %w", err)
		}
		if found, err = outbound.Probe(ctx, outbound.Server{Origin: u, Allowed: c.cfg.AllowAddresses, Advice: AddressAdvice, PublicOnly: s.HTTP.PublicOnly}); err != nil {
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
