package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"pawl.dev/services/serve"
)

// stopGrace bounds how long running requests may take to end when the gateway stops.
const stopGrace = 10 * time.Second

// Serve takes requests until ctx is done. It then stops the gateway and returns nil: readiness turns to 503, streams end with a notice,
// and requests that still run after 10 s are cut off. Call Serve only once.
func (g *Gateway) Serve(ctx context.Context, lis net.Listener) error {
	server := &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: g.limits.HeaderTime,
		IdleTimeout:       g.limits.HTTPIdleTime,
		MaxHeaderBytes:    2 * g.limits.HeaderBytes, // observe refuses more than HeaderBytes; over HTTP/2 the server would only close the connection
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	if g.bounded {
		lis = serve.Admit(lis, "http", g.limits)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(g.certs.Listener(lis)) }()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err), g.Close())
	case <-ctx.Done():
	}
	err := g.shutDown(server)
	g.mcp.Wait()
	if failed := <-ended; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), failed))
	}
	return err
}

func (g *Gateway) shutDown(server *http.Server) error {
	_ = g.Close() // never fails
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		g.log.Warn("requests were cut off: they did not end in time", "grace", stopGrace)
		return server.Close()
	}
	return err
}
