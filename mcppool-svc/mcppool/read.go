package mcppool

import (
	"fmt"
	"log/slog"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/api"
	"pawl.dev/mcppool-svc/internal/registry"
)

// FileServer is one server of a configuration file, to register.
type FileServer struct {
	*mcppoolv1.McpServer
	// Unknown are keys that have no meaning here, such as those that other clients keep beside.
	Unknown []string
}

// BadServers are the servers of a file that cannot be read.
type BadServers = registry.BadServers

// ReadServers reads a file in the mcpServers format as the pool reads its own (Config.MCPConfigs), for a client that registers
// what is in it; only names the one to read, by its name or id, and is empty for all. Relative folders in it count from its own
// folder. An error names file, line and server, all of them that cannot be read; it is a *BadServers where others can.
func ReadServers(path, only string) ([]FileServer, error) {
	entries, err := registry.Reader{Log: slog.New(slog.DiscardHandler), Only: only}.File(path)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 && only == "" {
		return nil, fmt.Errorf("%s: there are no servers in it", path)
	}
	servers := make([]FileServer, len(entries))
	for i, e := range entries {
		servers[i] = FileServer{McpServer: api.ToMessage(e.Server), Unknown: e.Unknown}
	}
	return servers, nil
}
