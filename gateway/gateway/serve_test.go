package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"pawl.dev/gateway/gateway"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/inproc"
	"pawl.dev/services/serve"
)

func TestReadiness(t *testing.T) {
	b := start(t, gateway.Config{})
	if resp, _ := b.text("GET", "/healthz", "", nil); resp.StatusCode != http.StatusOK {
		t.Errorf("/healthz: status %d", resp.StatusCode)
	}
	resp, text := b.text("GET", "/readyz", "", nil)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("/readyz: status %d: %s", resp.StatusCode, text)
	}
	serving := map[string]any{"ready": true, "status": "SERVING"}
	want := map[string]any{"ready": true, "services": map[string]any{"executor": serving, "pool": serving, "planner": serving}}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("/readyz (-want +got):\n%s", diff)
	}
}

// TestServiceIsGone: one absent service makes the gateway unready, and the errors of its calls name what to check.
func TestServiceIsGone(t *testing.T) {
	unreachable, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unreachable.Close() })
	here := grpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		executorv1.RegisterExecutorServiceServer(faking{r, &journal{}}, &fakeExecutor{})
	}, serve.Options{})
	g, err := gateway.New(gateway.Config{}, gateway.Deps{Executor: here, Pool: unreachable, Planner: here})
	if err != nil {
		t.Fatal(err)
	}
	ready := request(g, "GET", "/readyz")
	if ready.Code != http.StatusServiceUnavailable || !strings.Contains(ready.Body.String(), `"pool":{"ready":false,"status":"UNREACHABLE"`) {
		t.Errorf("/readyz: %d %s", ready.Code, ready.Body)
	}
	for _, path := range []string{"/v1/mcpServers", "/v1/mcpServers/m/tools"} {
		got := request(g, "GET", path)
		if got.Code != http.StatusServiceUnavailable || !strings.Contains(got.Body.String(), "--pool") || strings.Contains(got.Body.String(), "127.0.0.1:1") {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if stopping := request(g, "GET", "/readyz"); !strings.Contains(stopping.Body.String(), `"stopping":true`) {
		t.Errorf("/readyz after Close: %s", stopping.Body)
	}
	if err := g.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// TestInOneProcess: over direct connections, without health, as `pawl up` has them.
func TestInOneProcess(t *testing.T) {
	conn := inproc.New(nil, nil)
	f := &fakeExecutor{}
	executorv1.RegisterExecutorServiceServer(faking{conn, &journal{}}, f)
	g, err := gateway.New(gateway.Config{}, gateway.Deps{Executor: conn, Pool: conn, Planner: conn})
	if err != nil {
		t.Fatal(err)
	}
	f.WatchTaskFn = func(_ *executorv1.WatchTaskRequest, s eventStream) error { return tell(s, 0) }
	if got := request(g, "GET", "/readyz"); got.Code != http.StatusOK {
		t.Errorf("/readyz: %d %s", got.Code, got.Body)
	}
	if got := request(g, "GET", "/v1/tasks/"+taskID); got.Code != http.StatusOK {
		t.Errorf("unary: %d %s", got.Code, got.Body)
	}
	if got := request(g, "GET", events); got.Code != http.StatusOK || strings.Count(got.Body.String(), "\n") != 3 {
		t.Errorf("stream: %d %s", got.Code, got.Body)
	}
}

func request(g *gateway.Gateway, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, nil))
	return w
}

func TestConfigIsChecked(t *testing.T) {
	conn := inproc.New(nil, nil)
	deps := gateway.Deps{Executor: conn, Pool: conn, Planner: conn}
	tests := map[string]struct {
		cfg  gateway.Config
		want string
	}{
		"wildcard origin": {gateway.Config{AllowOrigins: []string{"*"}}, "--allow-origin"},
		"host with path":  {gateway.Config{AllowHosts: []string{"http://a/"}}, "--allow-host"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := gateway.New(tt.cfg, deps)
			if err == nil || errs.ReasonName(errs.Reason(err)) != "INVALID_CONFIG" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want INVALID_CONFIG about %s", err, tt.want)
			}
		})
	}
}

// TestPanicIsAProblem: a bug of the gateway's own answers like any other error.
func TestPanicIsAProblem(t *testing.T) {
	g, err := gateway.New(gateway.Config{}, gateway.Deps{Executor: panics{}, Pool: panics{}, Planner: panics{}})
	if err != nil {
		t.Fatal(err)
	}
	got := request(g, "GET", "/v1/tasks")
	if got.Code != http.StatusInternalServerError || got.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// TestCutOffIsLogged: a response that is broken off is logged like any other.
func TestCutOffIsLogged(t *testing.T) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g, err := gateway.New(gateway.Config{}, gateway.Deps{Executor: aborts{}, Pool: aborts{}, Planner: aborts{}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) || !strings.Contains(logged.String(), "path=/v1/tasks") {
			t.Errorf("panic %v, log %q", err, logged.String())
		}
	}()
	request(g, "GET", "/v1/tasks")
}

// aborts is a connection whose calls break the request off.
type aborts struct{ grpc.ClientConnInterface }

func (aborts) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	panic(http.ErrAbortHandler)
}

// panics is a connection that is broken beyond an error.
type panics struct{ grpc.ClientConnInterface }
