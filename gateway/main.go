// Command gateway serves the REST API of an executor, a pool and a planner.
package main

import (
	"context"
	"os"

	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
)

const (
	name        = "gateway"
	description = "REST, event streams and OpenAPI over the gRPC services of Pawl."
)

// settings are the flags; each is also an environment variable (PAWL_HTTP …) and a key of the configuration file.
type settings struct {
	HTTP          string    `name:"http" placeholder:"ADDR" default:"127.0.0.1:7410" help:"Where to serve HTTP (${default})."`
	Executor      string    `placeholder:"ADDR" default:"127.0.0.1:7412" help:"The executor's gRPC address (${default})."`
	Pool          string    `placeholder:"ADDR" default:"127.0.0.1:7414" help:"The MCP pool's gRPC address (${default}); for several replicas, a list with commas or dns:///name:port."`
	Planner       string    `placeholder:"ADDR" default:"127.0.0.1:7413" help:"The planner's gRPC address (${default})."`
	AllowHost     []string  `placeholder:"HOST" help:"A host name, other than localhost, that requests may have in their Host header. May be repeated."`
	AllowOrigin   []string  `placeholder:"ORIGIN" help:"An origin (scheme://host[:port]) whose web pages may call the API. May be repeated."`
	Authenticated bool      `help:"The services were started with a key file, so every call needs a key. Allows --http to be an address other than loopback."`
	OIDC          string    `name:"oidc" placeholder:"FILE" type:"path" help:"The file of OpenID Connect issuers with which the services were started. MCP clients are told to log in at them."`
	TLS           serve.TLS `embed:""`

	Limits serve.Limits `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, description, &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return run(ctx, s)
	})
}
