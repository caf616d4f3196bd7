package mcppool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"pawl.dev/mcppool-svc/internal/conn"
	"pawl.dev/mcppool-svc/internal/spec"
	"pawl.dev/services/conf"
)

// Config says what the pool is to do; the tags make its fields flags of a process. The zero value is a pool in memory
// without servers.
type Config struct {
	DataDir    string   `name:"data" placeholder:"DIR" type:"path" help:"Where registered MCP servers are kept; in memory alone where empty."`
	MCPConfigs []string `name:"mcp-config" placeholder:"FILE" type:"path" sep:"none" help:"MCP servers, in the mcpServers JSON of other MCP clients. May be repeated."`
	Workspace  string   `placeholder:"DIR" type:"path" help:"Offers the files of this folder as the built-in MCP server workspace."`

	MaxConnections        int           `placeholder:"N" help:"MCP connections in all; 1000 where 0."`
	MaxConnectionsPerUser int           `placeholder:"N" help:"MCP connections of one user; 100 where 0."`
	MaxMessageBytes       int           `placeholder:"N" help:"Longest message of an MCP server; 32 MiB where 0."`
	IdleTimeout           time.Duration `placeholder:"DURATION" help:"When a connection that nobody needs is closed; 5m where 0."`
	SessionTimeout        time.Duration `placeholder:"DURATION" help:"When a session that was not heard of is forgotten; 30m where 0."`
	DrainTimeout          time.Duration `placeholder:"DURATION" help:"How long running calls may take when the pool stops; 7s where 0."`

	Environ []string `kong:"-"` // what children inherit from, and ${env:NAME} means; the process's where nil
	Version string   `kong:"-"` // of this program, as servers are told
}

// Deps are what the pool needs of its surroundings.
type Deps struct {
	Log *slog.Logger
}

// defaultDrain leaves those calls that are stopped then the time to say what came of them, before the server cuts them
// off after 10 s.
const defaultDrain = 7 * time.Second

func (c Config) withDefaults() Config {
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrain
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Version == "" {
		c.Version = conf.Version()
	}
	return c
}

func (c Config) pool() conn.Config {
	return conn.Config{
		MaxConnections: c.MaxConnections, MaxPerUser: c.MaxConnectionsPerUser,
		IdleTimeout: c.IdleTimeout, SessionTimeout: c.SessionTimeout,
	}
}

// validate names the setting that cannot be used.
func (c Config) validate() error {
	if c.MaxConnections < 0 || c.MaxConnectionsPerUser < 0 || c.MaxMessageBytes < 0 {
		return errors.New("the limits of the MCP pool cannot be negative")
	}
	if c.IdleTimeout < 0 || c.SessionTimeout < 0 || c.DrainTimeout < 0 {
		return errors.New("the timeouts of the MCP pool cannot be negative")
	}
	return nil
}

// workspaceServer is the built-in server that Config.Workspace asks for.
func workspaceServer(dir string) (*spec.Server, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("the workspace folder %s: %w", dir, err)
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("the workspace folder cannot be used: %w; give an existing one", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("the workspace %s is not a folder; give a folder", root)
	}
	return &spec.Server{
		UID: "builtin:workspace:" + root, ID: spec.BuiltinWorkspace, DisplayName: "Workspace",
		Description: "Looks at the files of " + root,
		Builtin:     &spec.Builtin{Name: spec.BuiltinWorkspace, Root: root},
		// Trusted goes without saying for built-in servers; it is set so that it shows.
		AutoActivate: true, Trusted: true, FromConfig: true, ByOperator: true,
	}, nil
}
