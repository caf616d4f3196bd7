package mcppool

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
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
)

// Config says what the pool is to do; the tags make its fields flags of a process. The zero value is a pool in memory
// without servers.
type Config struct {
	DataDir    string   `name:"data" placeholder:"DIR" type:"path" help:"Where registered MCP servers are kept; in memory alone where empty."`
	MCPConfigs []string `name:"mcp-config" placeholder:"FILE" type:"path" sep:"none" help:"MCP servers, in the mcpServers JSON of other MCP clients. May be repeated."`
	Workspace  string   `placeholder:"DIR" type:"path" help:"Offers the files of this folder as the built-in MCP server workspace."`
	Audit      string   `placeholder:"FILE" type:"path" help:"Where a record of each tool call is appended, one JSON object a line; nowhere where empty."`

	AllowAddresses []string `placeholder:"CIDR" help:"Private addresses that HTTP servers of plain users, and redirects, may lead to, such as 10.1.0.0/16. May be repeated."`

	LoginRedirectURI    string `name:"login-redirect-uri" placeholder:"URL" help:"Where browsers bring what a login to an MCP server gave, beside loopback addresses; the gateway's /v1/mcpLogins:callback."`
	LoginClientMetadata string `placeholder:"URL" help:"The https address of a Client ID Metadata Document, by which authorization servers know this installation."`
	TokenKey            string `placeholder:"REF" help:"The key that logins to MCP servers are stored under, env:NAME or file:PATH (32 bytes in base64); a file in the data folder where empty."`

	MaxConnections        int           `placeholder:"N" help:"MCP connections in all (default 1000)."`
	MaxConnectionsPerUser int           `placeholder:"N" help:"MCP connections of one user (default 100)."`
	MaxMessageBytes       int           `placeholder:"N" help:"Longest message of an MCP server (default 32 MiB)."`
	MaxChildMemoryBytes   uint64        `placeholder:"N" help:"Memory of each process of a stdio server; not limited where 0. Linux only."`
	MaxChildFiles         uint64        `placeholder:"N" help:"Open files of each process of a stdio server; as the pool's where 0. Linux only."`
	MaxToolResultBytes    int           `placeholder:"N" help:"Longest result of a tool, what is more is cut off (default 16 MiB)."`
	InputTimeout          time.Duration `placeholder:"DURATION" help:"How long a question of an MCP server in the middle of a call waits for an answer (default 15m)."`
	IdleTimeout           time.Duration `placeholder:"DURATION" help:"When an unused connection is closed (default 5m)."`
	SessionTimeout        time.Duration `placeholder:"DURATION" help:"When a session that was not heard of is forgotten (default 30m)."`
	MaxCalls              int           `placeholder:"N" help:"Tool calls at once in all (default 10000)."`
	MaxCallsPerUser       int           `placeholder:"N" help:"Tool calls at once of one user (default 1000)."`
	MaxResults            int           `placeholder:"N" help:"Results of named calls kept until they are acknowledged (default 10000)."`
	MaxResultBytes        int64         `placeholder:"N" help:"Their size in all (default 256 MiB)."`
	MaxTombstones         int           `placeholder:"N" help:"Ids of finished calls that are kept so that no call is repeated (default 100000)."`
	MaxOwners             int           `placeholder:"N" help:"Sessions whose newest owner is kept so that an older one cannot call (default 100000)."`
	ResultTimeout         time.Duration `placeholder:"DURATION" help:"How long a result waits to be acknowledged (default 15m)."`
	MaxCachedBytes        int64         `placeholder:"N" help:"Size of the results of reading tools that are cached, for servers with a cache_ttl (default 64 MiB)."`
	BreakAfter            int           `placeholder:"N" help:"Failed connects in a row after which the pool does not connect to an MCP server for a while (default 5)."`
	BreakFor              time.Duration `placeholder:"DURATION" help:"How long that is (default 30s)."`
	ProbeAfter            time.Duration `placeholder:"DURATION" help:"How old a server's last sign of life may be for those who look at its state (default 10s)."`
	DrainTimeout          time.Duration `placeholder:"DURATION" help:"How long running calls may take when the pool stops (default 7s)."`

	// Peers are the other replicas, by host:port, or by dns:///name:port for a name that leads to all of them, this one too; none
	// if empty. ServiceKey is a key of role service, for calls to them.
	Peers      []string `kong:"-"`
	Self       string   `kong:"-"` // where this one listens, so that it does not call itself; may be empty
	ServiceKey string   `kong:"-"`

	Environ []string `kong:"-"` // what children inherit from, and ${env:NAME} means; the process's if nil
	// KeepResults lets a stop wait, within DrainTimeout, until the result of each named call was fetched. It has no use if the clients
	// stop before the pool.
	KeepResults bool `kong:"-"`

	Version string `kong:"-"` // of this program, as servers are told
}

// Deps are what the pool needs of its surroundings.
type Deps struct {
	Log   *slog.Logger     // nothing is logged if nil
	Now   func() time.Time // time.Now if nil; for what the pool remembers and refuses, not for its timers
	Meter metric.Meter     // the process's if nil, which measures nothing unless telemetry is set up

	dialPeer     func(addr string) (peer.Conn, error) // of tests; nil: over the network
	peerInterval time.Duration                        // of tests
	// Planner is the connection to the planner, through which models are asked for MCP servers, with the pool's own identity. Nil: no
	// models are asked.
	Planner grpc.ClientConnInterface

	// Builtins are servers of the program around the pool, by id; they are active for all users.
	Builtins map[string]Builtin
}

// defaultDrain leaves cancelled calls the time to report their outcome before the server cuts them off after 10 s.
const defaultDrain = 7 * time.Second

func (c Config) withDefaults() Config {
	c.DrainTimeout = cmp.Or(c.DrainTimeout, defaultDrain)
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

// validate names the setting that cannot be used.
func (c Config) validate() error {
	limits := []int64{
		int64(c.MaxConnections), int64(c.MaxConnectionsPerUser), int64(c.MaxMessageBytes), int64(c.MaxToolResultBytes), int64(c.MaxCalls), int64(c.MaxCallsPerUser),
		int64(c.MaxResults), c.MaxResultBytes, int64(c.MaxTombstones), int64(c.MaxOwners), int64(c.BreakAfter),
		c.MaxCachedBytes,
	}
	if slices.Min(limits) < 0 {
		return errors.New("the limits of the MCP pool cannot be negative")
	}
	if c.IdleTimeout < 0 || c.SessionTimeout < 0 || c.DrainTimeout < 0 || c.ResultTimeout < 0 || c.BreakFor < 0 || c.InputTimeout < 0 {
		return errors.New("the timeouts of the MCP pool cannot be negative")
	}
	if !process.LimitsWork && !c.childLimits().None() {
		return errors.New("stdio servers can be limited on Linux only; leave max-child-memory-bytes and max-child-files out")
	}
	_, err := c.allowed()
	return errors.Join(err, c.checkPeers(), oauth.CheckRedirect(c.LoginRedirectURI), oauth.CheckDocument(c.LoginClientMetadata))
}

func (c Config) childLimits() process.Limits {
	return process.Limits{Memory: c.MaxChildMemoryBytes, Files: c.MaxChildFiles}
}

// allowed reads AllowAddresses.
func (c Config) allowed() ([]netip.Prefix, error) {
	list := make([]netip.Prefix, 0, len(c.AllowAddresses))
	for _, text := range c.AllowAddresses {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("the range of allowed addresses %q cannot be read; write it like 10.1.0.0/16 or fd00::/8", text)
		}
		list = append(list, p.Masked())
	}
	return list, nil
}
