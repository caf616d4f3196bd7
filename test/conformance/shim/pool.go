package shim

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"

	"pawl.dev/mcppool-svc/mcppool"
)

// serverID names the suite's server in the pool.
const serverID = "conformance"

// drain is how long running calls may take when the pool stops.
const drain = time.Second

// pool is a running pool, called as an operator.
type pool struct {
	mcppoolv1.McpPoolServiceClient
	stop func() error
}

// open starts a pool that keeps everything in memory.
func open(ctx context.Context, log *slog.Logger) (*pool, error) {
	unary, stream, err := serve.Interceptors(serve.Options{Auth: identity.Local(), Log: log, Local: true})
	if err != nil {
		return nil, err
	}
	service, err := mcppool.New(ctx, mcppool.Config{
		DrainTimeout:   drain,
		AllowAddresses: []string{"127.0.0.0/8", "::1/128"}, // the suite's servers and authorization servers
		// The client id; the authorization servers do not fetch the document.
		LoginClientMetadata: "https://conformance-test.local/client-metadata.json",
	}, mcppool.Deps{Log: log})
	if err != nil {
		return nil, err
	}
	conn := inproc.New(unary, stream)
	service.Register(conn)
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan error, 1)
	go func() { ran <- service.Run(run) }()
	stop := func() error {
		cancel()
		return errors.Join(<-ran, service.Close())
	}
	return &pool{McpPoolServiceClient: mcppoolv1.NewMcpPoolServiceClient(conn), stop: stop}, nil
}

// register registers the suite's server.
func (p *pool) register(ctx context.Context, s Scenario) error {
	web := &mcppoolv1.HttpTransport{Url: s.URL}
	if s.Given.ClientID != "" {
		web.Oauth = &mcppoolv1.OAuth{ClientId: s.Given.ClientID, ClientSecret: cmp.Or(s.Given.ClientSecret, s.Given.PrivateKey)}
		if strings.HasPrefix(s.Name, "auth/client-credentials-") {
			web.Oauth.Grant = mcppoolv1.OAuth_GRANT_CLIENT_CREDENTIALS
		}
	}
	_, err := p.CreateMcpServer(ctx, &mcppoolv1.CreateMcpServerRequest{McpServer: &mcppoolv1.McpServer{
		Id: serverID, AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: web},
	}})
	return err
}
