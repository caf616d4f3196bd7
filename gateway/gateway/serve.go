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

const (
	// stopGrace bounds how long running requests may take to end when the gateway stops.
	stopGrace = 10 * time.Second
	// headerTimeout bounds how long a client may take to send a request's header.
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10 // bytes
)

// Serve takes requests until ctx is done. It then stops the gateway and returns nil: readiness turns to 503, streams end with a notice,
// and requests that still run after 10 s are cut off. Call Serve only once.
func (g *Gateway) Serve(ctx context.Context, lis net.Listener) error {
	server := &http.Server{
		Handler:           g.handler,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	if g.bounded {
		lis = serve.Admit(lis)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(g.certs.Listener(lis)) }()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("serve HTTP on %s: %w", lis.Addr(), err), g.Close())
	case <-ctx.Done():
	}
	err := g.shutDown(server)
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
