package gateway

import (
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	"pawl.dev/services/errs"
)

const (
	defaultMaxBody   = 4 << 20
	defaultHeartbeat = 15 * time.Second
)

// Config is the gateway's configuration. The zero value serves this machine alone.
type Config struct {
	// AllowHosts are names, with or without a port, that the Host header may have beside localhost and loopback addresses.
	AllowHosts []string
	// AllowOrigins are the origins (scheme://host[:port]) whose web pages may call.
	AllowOrigins []string
	// Authenticated reports that the services require keys. Then every Host is accepted unless AllowHosts names some: a page that
	// rebinds a DNS name still has no key.
	Authenticated bool
	// MaxBodyBytes bounds a request body; 0 means 4 MiB.
	MaxBodyBytes int64
	// Heartbeat is the time between two comments on an event stream; 0 means 15 s.
	Heartbeat time.Duration
	// Version is shown on the start page and in the OpenAPI document.
	Version string
}

// Deps are the connections and the logger of a gateway. It does not close the connections.
type Deps struct {
	Executor grpc.ClientConnInterface // ExecutorService, AgentService
	Pool     grpc.ClientConnInterface // McpPoolService
	Planner  grpc.ClientConnInterface // PlannerService
	Log      *slog.Logger             // nil: nothing is logged
}

func (c Config) complete() (Config, error) {
	if c.MaxBodyBytes < 0 {
		return c, badConfig("MaxBodyBytes is %d; give at least 1, or 0 for 4 MiB", c.MaxBodyBytes)
	}
	if c.Heartbeat < 0 {
		return c, badConfig("Heartbeat is %s; give a positive time, or 0 for 15 s", c.Heartbeat)
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = defaultMaxBody
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = defaultHeartbeat
	}
	return c, nil
}

func (d Deps) complete() (Deps, error) {
	for name, conn := range map[string]grpc.ClientConnInterface{"Executor": d.Executor, "Pool": d.Pool, "Planner": d.Planner} {
		if conn == nil {
			return d, badConfig("Deps.%s is missing; give a connection to that service", name)
		}
	}
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	return d, nil
}

func badConfig(format string, args ...any) error {
	return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_CONFIG, "gateway: "+format, args...)
}
