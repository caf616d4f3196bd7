package mcppool

import (
	"fmt"
	"log/slog"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/api"
	"pawl.dev/mcppool-svc/internal/registry"
)

// FileServer is one server of a configuration file, in the form of the API.
type FileServer struct {
	*mcppoolv1.McpServer
	// Unknown are keys that this program does not know, such as those of other clients.
	Unknown []string
}

// BadServers is the error of a file in which some servers cannot be read.
type BadServers = registry.BadServers

// ReadServers reads a file in the format of Config.MCPConfigs, for a client that registers the servers. If only is not empty, it reads only
// the server with this name or id. Relative folders in the file are relative to the file's folder. If servers cannot be read, the error is
// a *BadServers.
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
