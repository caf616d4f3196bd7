package mcp

import (
	"io"
	"log/slog"
	"net/netip"
	"strings"

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
	Version    string   // of this program, as servers are told
	MaxMessage int      // bytes; DefaultMaxMessage if 0
	Environ    []string // what children inherit from, and references are resolved in
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

// expand resolves references in what an operator wrote.
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
