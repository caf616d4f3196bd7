package mcppool

import (
	"fmt"
	"log/slog"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/api"
	"pawl.dev/mcppool-svc/internal/config"
)

// FileServer is one server of a configuration file, to register.
type FileServer struct {
	*mcppoolv1.McpServer
	// Unknown are keys that have no meaning here, such as those that other clients keep beside.
	Unknown []string
}

// ReadServers reads a file in the mcpServers format as the pool reads its own (Config.MCPConfigs), for a client that registers
// what is in it. Relative folders in it count from its own folder. An error names file, line and server.
func ReadServers(path string) ([]FileServer, error) {
	entries, err := config.Reader{Log: slog.New(slog.DiscardHandler)}.File(path)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s: there are no servers in it", path)
	}
	servers := make([]FileServer, len(entries))
	for i, e := range entries {
		servers[i] = FileServer{McpServer: api.ToMessage(e.Server), Unknown: e.Unknown}
	}
	return servers, nil
}
