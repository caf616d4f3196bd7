package mcppool

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"

	"pawl.dev/mcppool-svc/internal/call/inflight"
	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/oauth"
	"pawl.dev/mcppool-svc/internal/peer"
	"pawl.dev/mcppool-svc/internal/process"
	"pawl.dev/services/conf"
	"pawl.dev/services/outbound"
	"pawl.dev/services/serve"
)

// Config configures the pool; the tags make its fields flags of a process. With the zero value the pool keeps everything in memory
// and has no servers.
type Config struct {
	DataDir    string   `name:"data" placeholder:"DIR" type:"path" help:"Folder that keeps registered MCP servers, approved tools and logins; if empty, they are kept in memory only."`
	MCPConfigs []string `name:"mcp-config" placeholder:"FILE" type:"path" sep:"none" help:"MCP servers, in the mcpServers JSON of other MCP clients. May be repeated."`
	Workspace  string   `placeholder:"DIR" type:"path" help:"Offers the files of this folder as the built-in MCP server workspace."`
	Audit      string   `placeholder:"FILE" type:"path" help:"File to which records of tool calls, approvals of tools, answers to servers and model requests are appended, one JSON object per line; if empty, none are written."`

	AllowAddresses []string `placeholder:"CIDR" help:"Private addresses at which plain users may register HTTP servers, and to which redirects may lead, such as 10.1.0.0/16. May be repeated."`

	LoginRedirectURI    string `name:"login-redirect-uri" placeholder:"URL" help:"Address to which browsers return after a login to an MCP server, in addition to loopback addresses: the gateway's /v1/mcpLogins:callback."`
	LoginClientMetadata string `placeholder:"URL" help:"The https address of a Client ID Metadata Document, by which authorization servers know this installation."`
	TokenKey            string `placeholder:"REF" help:"The key that encrypts stored logins to MCP servers, env:NAME or file:PATH (32 bytes in base64); if empty, a file in the data folder."`

	MaxConnections        int           `placeholder:"N" help:"MCP connections in all (default 1000)."`
	MaxConnectionsPerUser int           `placeholder:"N" help:"MCP connections of one user (default 100)."`
	MaxMessageBytes       int           `placeholder:"N" help:"Longest message of an MCP server (default 32 MiB)."`
	MaxLargeBytes         int64         `placeholder:"N" help:"Total size of messages beyond 1 MiB that MCP servers sent and that are being read or recorded; others wait (default 96 MiB)."`
	MaxChildMemoryBytes   uint64        `placeholder:"N" help:"Memory of each process of a stdio server; 0 means no limit. Linux only."`
	MaxChildFiles         uint64        `placeholder:"N" help:"Open files of each process of a stdio server; 0 means the pool's own limit. Linux only."`
	MaxToolResultBytes    int           `placeholder:"N" help:"Longest result of a tool, resource or prompt; longer results of tools are cut off, longer resources and prompts refused (default 16 MiB)."`
	InputTimeout          time.Duration `placeholder:"DURATION" help:"How long a question that an MCP server asks during a call waits for an answer (default 15m)."`
	IdleTimeout           time.Duration `placeholder:"DURATION" help:"How long an unused connection is kept (default 5m)."`
	SessionTimeout        time.Duration `placeholder:"DURATION" help:"How long a session without calls keeps its connections (default 30m)."`
	MaxCalls              int           `placeholder:"N" help:"Running tool calls in all (default 10000)."`
	MaxCallsPerUser       int           `placeholder:"N" help:"Running tool calls of one user (default 1000)."`
	MaxResults            int           `placeholder:"N" help:"Results of calls with a call_id that are kept until they are acknowledged (default 10000)."`
	MaxResultBytes        int64         `placeholder:"N" help:"Total size of kept results (default 256 MiB)."`
	MaxTombstones         int           `placeholder:"N" help:"Ids of finished calls that are kept so that no call is repeated (default 100000)."`
	MaxOwners             int           `placeholder:"N" help:"Sessions whose newest owner is remembered so that an older owner cannot call (default 100000)."`
	ResultTimeout         time.Duration `placeholder:"DURATION" help:"How long a result waits to be acknowledged (default 15m)."`
	MaxCachedBytes        int64         `placeholder:"N" help:"Total size of cached results, of servers with a cache_ttl (default 64 MiB)."`
	BreakAfter            int           `placeholder:"N" help:"Failed connects in a row after which the pool does not connect to an MCP server for a while (default 5)."`
	BreakFor              time.Duration `placeholder:"DURATION" help:"How long the pool does not connect to an MCP server after --break-after failed connects in a row (default 30s)."`
	ProbeAfter            time.Duration `placeholder:"DURATION" help:"When an MCP server's state is shown, the server is probed if its last connect or answered probe is older than this (default 10s)."`
	DrainTimeout          time.Duration `placeholder:"DURATION" help:"How long running calls may take when the pool stops (default 7s)."`

	// Peers are the other replicas, by host:port, or by dns:///name:port for a name that resolves to all replicas, this one included.
	// ServiceKey is a key of role service, for calls to them.
	Peers      []string `kong:"-"`
	Self       string   `kong:"-"` // the address on which this replica listens, so that it does not call itself; may be empty
	ServiceKey string   `kong:"-"`

	Environ []string `kong:"-"` // the environment of children and of ${env:NAME}; the process's if nil
	// KeepResults makes Run wait, within DrainTimeout, until a client has fetched the result of each named call. Leave it false if the
	// clients stop before the pool.
	KeepResults bool `kong:"-"`

	Version string `kong:"-"` // of this program; MCP servers get it
}

// Deps are the pool's dependencies.
type Deps struct {
	Log   *slog.Logger     // nothing is logged if nil
	Now   func() time.Time // time.Now if nil; used for expiry and deadlines, not for timers
	Meter metric.Meter     // otel's global meter if nil

	dialPeer     func(name, addr string) (peer.Conn, error) // set by tests; nil: over the network
	peerInterval time.Duration                              // set by tests
	// Planner is the connection to the planner, with the pool's own identity. Requests of MCP servers to models (sampling) go over it; if
	// nil, these are refused.
	Planner grpc.ClientConnInterface

	// Certificates are for connections to Config.Peers; nil: without TLS, except to addresses that begin with https://.
	Certificates *serve.Certificates

	// Builtins are servers of the program that embeds the pool, by id. They are active for all users.
	Builtins map[string]Builtin
}

// defaultDrain leaves cancelled calls time to report their outcome before the gRPC server closes their streams after 10 s.
const defaultDrain = 7 * time.Second

func (c Config) withDefaults() Config {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrain)
	c.MaxLargeBytes = cmp.Or(c.MaxLargeBytes, 96<<20)
	c.MaxToolResultBytes = cmp.Or(c.MaxToolResultBytes, 16<<20)
	c.InputTimeout = cmp.Or(c.InputTimeout, 15*time.Minute)
	c.Version = cmp.Or(c.Version, conf.Version())
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	return c
}

func (d Deps) withDefaults() Deps {
	d.Log = cmp.Or(d.Log, slog.New(slog.DiscardHandler))
	d.Meter = cmp.Or(d.Meter, otel.Meter("pawl.dev/mcppool-svc"))
	if d.Now == nil {
		d.Now = time.Now
	}
	return d
}

func (c Config) pool() conn.Config {
	return conn.Config{
		MaxConnections: c.MaxConnections, MaxPerUser: c.MaxConnectionsPerUser,
		IdleTimeout: c.IdleTimeout, SessionTimeout: c.SessionTimeout, BreakAfter: c.BreakAfter, BreakFor: c.BreakFor,
		ProbeAfter: c.ProbeAfter,
	}
}

func (c Config) calls(now func() time.Time) inflight.Config {
	return inflight.Config{
		MaxRunning: c.MaxCalls, MaxRunningPerUser: c.MaxCallsPerUser, MaxFinished: c.MaxResults, MaxFinishedBytes: c.MaxResultBytes,
		MaxTombstones: c.MaxTombstones, MaxSessions: c.MaxOwners, ResultTimeout: c.ResultTimeout, Now: now,
	}
}

// validate returns an error if a setting cannot be used.
func (c Config) validate() error {
	limits := []int64{
		int64(c.MaxConnections), int64(c.MaxConnectionsPerUser), int64(c.MaxMessageBytes), int64(c.MaxToolResultBytes), int64(c.MaxCalls), int64(c.MaxCallsPerUser),
		int64(c.MaxResults), c.MaxResultBytes, int64(c.MaxTombstones), int64(c.MaxOwners), int64(c.BreakAfter),
		c.MaxCachedBytes, c.MaxLargeBytes,
	}
	if slices.Min(limits) < 0 {
		return errors.New("the limits of the MCP pool cannot be negative")
	}
	durations := []time.Duration{c.IdleTimeout, c.SessionTimeout, c.DrainTimeout, c.ResultTimeout, c.BreakFor, c.InputTimeout, c.ProbeAfter}
	if slices.Min(durations) < 0 {
		return errors.New("the timeouts of the MCP pool cannot be negative")
	}
	if !process.LimitsWork && !c.childLimits().None() {
		return errors.New("stdio servers can be limited on Linux only; leave max-child-memory-bytes and max-child-files out")
	}
	_, err := outbound.ParseRanges(c.AllowAddresses)
	return errors.Join(err, c.checkPeers(), oauth.CheckRedirect(c.LoginRedirectURI), oauth.CheckDocument(c.LoginClientMetadata))
}

func (c Config) childLimits() process.Limits {
	return process.Limits{Memory: c.MaxChildMemoryBytes, Files: c.MaxChildFiles}
}
