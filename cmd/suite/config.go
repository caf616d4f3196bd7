package suite

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/serve"
)

// Config says what to run and where. The zero value of a field means what its comment says.
type Config struct {
	// DataDir holds everything that must outlive the process. Required; made where it does not exist.
	DataDir string
	// HTTPAddr is where the gateway listens, host:port; empty: it does not.
	HTTPAddr string
	// GRPCAddr is where all gRPC services listen, host:port; empty: they do not.
	GRPCAddr string
	// MCPConfigs are files in the mcpServers format.
	MCPConfigs []string
	// Workspace is the folder that the built-in MCP server `workspace` shows; empty: there is no such server.
	Workspace string
	// KeysFile holds the hashed API keys; empty: everyone who reaches the suite is the user `local`.
	KeysFile string
	// Executor are the executor's settings; its data folder is that of the suite.
	Executor executor.Config
	// Pool are the MCP pool's settings; its data folder, files, workspace and version are those of the suite.
	Pool mcppool.Config
	// Builtins are tools of the program that runs the suite, Go functions or MCP servers in its process, by name, which is their server's id.
	Builtins map[string]mcppool.Builtin
	// DefaultModel plans where neither a task nor its agent names a model; empty: the planner's default.
	DefaultModel string
	// Models is a file of named language models; empty: there are none.
	Models string
	// ModelTries is how often a model's reply is asked for before the call fails; 0: the planner's default.
	ModelTries int
	// AllowHosts are Host headers that the gateway takes beside loopback and the address it listens on.
	AllowHosts []string
	// AllowOrigins are web origins whose pages may call the gateway.
	AllowOrigins []string
	// Version is told to clients; may be empty.
	Version string
}

// complete returns the configuration with absolute paths, the data folder existing.
func (c Config) complete() (Config, error) {
	if c.DataDir == "" {
		return c, fmt.Errorf("no data folder is configured")
	}
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil {
		return c, fmt.Errorf("data folder: %w", err)
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return c, fmt.Errorf("make the data folder: %w", err)
	}
	if c.Workspace == "" {
		return c, nil
	}
	if c.Workspace, err = discover.RealPath(c.Workspace); err != nil {
		return c, fmt.Errorf("workspace: %w", err)
	}
	return c, nil
}

// landingPage is where the gateway ends logins to MCP servers, as far as browsers of this machine can reach it; empty where
// that is not known before it listens, or is for an operator to say.
func landingPage(httpAddr string) string {
	_, port, err := net.SplitHostPort(httpAddr)
	if err != nil || port == "0" || !serve.LoopbackHost(httpAddr) {
		return ""
	}
	return "http://" + httpAddr + "/v1/mcpLogins:callback"
}
