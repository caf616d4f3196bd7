package health

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

// timeout is how long all services together may take to answer.
const timeout = time.Second

// Service is one that has to be there.
type Service struct {
	Name string
	Conn grpc.ClientConnInterface
}

// Health knows whether the gateway takes requests.
type Health struct {
	services []Service
	stopping atomic.Bool
}

// New makes a Health that asks these services.
func New(services ...Service) *Health { return &Health{services: services} }

// Stop makes the gateway unready for good.
func (h *Health) Stop() { h.stopping.Store(true) }

// Live answers 200 as long as the process answers at all.
func (h *Health) Live(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]bool{"alive": true})
}

type readiness struct {
	Ready    bool              `json:"ready"`
	Stopping bool              `json:"stopping,omitempty"`
	Services map[string]answer `json:"services"`
}

type answer struct {
	Ready  bool   `json:"ready"`
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// Ready answers 200 where every service serves, else 503; with each one's status.
func (h *Health) Ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	stopping := h.stopping.Load()
	result := readiness{Ready: !stopping, Stopping: stopping, Services: h.ask(ctx)}
	for _, a := range result.Services {
		result.Ready = result.Ready && a.Ready
	}
	code := http.StatusOK
	if !result.Ready {
		code = http.StatusServiceUnavailable
	}
	write(w, code, result)
}

// ask asks all services at once.
func (h *Health) ask(ctx context.Context) map[string]answer {
	answers := make([]answer, len(h.services))
	var wg sync.WaitGroup
	for i, s := range h.services {
		wg.Go(func() { answers[i] = check(ctx, s) })
	}
	wg.Wait()
	byName := make(map[string]answer, len(answers))
	for i, s := range h.services {
		byName[s.Name] = answers[i]
	}
	return byName
}

func check(ctx context.Context, s Service) answer {
	resp, err := healthpb.NewHealthClient(s.Conn).Check(ctx, &healthpb.HealthCheckRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented: // as gRPC's own health checks have it: a server without health is healthy
		return answer{Ready: true, Status: "SERVING"}
	case err != nil:
		return answer{Status: "UNREACHABLE", Error: errs.From(err).Message}
	}
	serving := resp.GetStatus() == healthpb.HealthCheckResponse_SERVING
	return answer{Ready: serving, Status: resp.GetStatus().String()}
}

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client may be gone
}
