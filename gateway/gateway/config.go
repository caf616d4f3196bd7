package gateway

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"pawl.dev/services/serve"
)

// Config is the gateway's configuration. The zero value accepts requests to localhost and loopback addresses only.
type Config struct {
	// AllowHosts are names, with or without a port, that the Host header may have, besides localhost and loopback addresses.
	AllowHosts []string
	// AllowOrigins are the origins (scheme://host[:port]) whose web pages may call the API.
	AllowOrigins []string
	// Authenticated is true if the services require keys. Then every Host is accepted if AllowHosts is empty: a page that
	// rebinds a DNS name has no key.
	Authenticated bool
	// Issuers returns the OpenID Connect issuers whose tokens the services accept, for MCP clients that log in; nil: none.
	Issuers func() []string
	// Certificates make Serve use TLS; nil: no TLS.
	Certificates *serve.Certificates
	// MaxBodyBytes bounds a request body; 0 means 4 MiB.
	MaxBodyBytes int64
	// Limits bound what clients can make the gateway use.
	Limits serve.Limits
	// Requests bounds the memory of requests; nil: a budget of Limits.
	Requests *serve.Budget
	// Heartbeat is the time between two comments on an SSE stream, and how long a streaming POST waits for its first message before it
	// answers 200; 0 means 15 s.
	Heartbeat time.Duration
	// Version is shown on the start page and in the OpenAPI document.
	Version string
}

// Deps are the connections and the logger of a gateway. The gateway does not close the connections.
type Deps struct {
	Executor grpc.ClientConnInterface // ExecutorService, AgentService
	Pool     grpc.ClientConnInterface // McpPoolService
	Planner  grpc.ClientConnInterface // PlannerService
	Log      *slog.Logger             // nil: nothing is logged
}
