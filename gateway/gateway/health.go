package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"pawl.dev/services/errs"
)

// healthTimeout bounds the health checks of a probe, which run in parallel.
const healthTimeout = time.Second

// service is one of the services on which readiness depends.
type service struct {
	name string
	full string // its name in gRPC, because in one process a connection leads to all services
	conn grpc.ClientConnInterface
}

// health answers liveness and readiness probes.
type health struct {
	services []service
	stopping atomic.Bool // once true, the gateway stays unready
}

// live always answers 200.
func (h *health) live(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]bool{"alive": true})
}

type readiness struct {
	Ready    bool                     `json:"ready"`
	Stopping bool                     `json:"stopping,omitempty"`
	Services map[string]serviceHealth `json:"services"`
}

type serviceHealth struct {
	Ready  bool   `json:"ready"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// ready answers with the status of each service: 200 if all of them serve and the gateway is not stopping, else 503.
func (h *health) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
	defer cancel()
	stopping := h.stopping.Load()
	result := readiness{Ready: !stopping, Stopping: stopping, Services: h.checkAll(ctx)}
	for _, s := range result.Services {
		result.Ready = result.Ready && s.Ready
	}
	code := http.StatusOK
	if !result.Ready {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, result)
}

// checkAll checks all services in parallel.
func (h *health) checkAll(ctx context.Context) map[string]serviceHealth {
	results := make([]serviceHealth, len(h.services))
	var wg sync.WaitGroup
	for i, s := range h.services {
		wg.Go(func() { results[i] = check(ctx, s) })
	}
	wg.Wait()
	byName := make(map[string]serviceHealth, len(results))
	for i, s := range h.services {
		byName[s.name] = results[i]
	}
	return byName
}

func check(ctx context.Context, s service) serviceHealth {
	resp, err := healthpb.NewHealthClient(s.conn).Check(ctx, &healthpb.HealthCheckRequest{Service: s.full})
	switch {
	case status.Code(err) == codes.Unimplemented: // as in gRPC's own health checks, a server without a health service is healthy
		return serviceHealth{Ready: true, Status: "SERVING"}
	case err != nil:
		return serviceHealth{Status: "UNREACHABLE", Error: errs.From(err).Message}
	}
	serving := resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
	return serviceHealth{Ready: serving, Status: resp.GetStatus().String()}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may be gone
}
