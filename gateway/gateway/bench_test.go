package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"pawl.dev/gateway/gateway"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	pipelinev1 "pawl.dev/proto/gen/pawl/pipeline/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/serve"
)

const taskID = "01890a5d-ac96-774b-bcce-b302099a8057"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a gateway that listens, over fake services that are reached by gRPC with the real interceptors.
type bench struct {
	t           *testing.T
	url         string
	client      *http.Client
	journal     *journal
	executor    *fakeExecutor
	completions *fakeCompletions
	planner     *fakePlanner
	agents      *fakeAgents
	pool        *fakePool
	stop        func() // and wait; may be called twice
}

func start(t *testing.T, cfg gateway.Config) *bench {
	t.Helper()
	return startWith(t, cfg, serve.Options{})
}

func startWith(t *testing.T, cfg gateway.Config, o serve.Options) *bench {
	t.Helper()
	j := &journal{}
	b := &bench{t: t, journal: j, executor: &fakeExecutor{}, completions: &fakeCompletions{}, planner: &fakePlanner{}, agents: &fakeAgents{}, pool: &fakePool{}}
	fakes := func(register func(grpc.ServiceRegistrar)) *grpc.ClientConn {
		return grpctest.Serve(t, func(r grpc.ServiceRegistrar) { register(faking{r, j}) }, o)
	}
	deps := gateway.Deps{
		Executor: fakes(func(r grpc.ServiceRegistrar) {
			executorv1.RegisterExecutorServiceServer(r, b.executor)
			executorv1.RegisterAgentServiceServer(r, b.agents)
			pipelinev1.RegisterCompletionServiceServer(r, b.completions)
		}),
		Pool: fakes(func(r grpc.ServiceRegistrar) { mcppoolv1.RegisterMcpPoolServiceServer(r, b.pool) }),
		Planner: fakes(func(r grpc.ServiceRegistrar) {
			plannerv1.RegisterPlannerServiceServer(r, b.planner)
		}),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	g, err := gateway.New(cfg, deps)
	if err != nil {
		t.Fatalf("make the gateway: %v", err)
	}
	b.serve(g)
	return b
}

func (b *bench) serve(g *gateway.Gateway) {
	b.t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatalf("listen: %v", err)
	}
	b.url = "http://" + lis.Addr().String()
	transport := &http.Transport{ExpectContinueTimeout: 5 * time.Second}
	b.client = &http.Client{Transport: transport, Timeout: 20 * time.Second}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, lis) }()
	stopped := false
	b.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("serve: %v", err)
		}
	}
	b.t.Cleanup(func() {
		transport.CloseIdleConnections()
		b.stop()
	})
}

// in is the same bench for a subtest.
func (b *bench) in(t *testing.T) *bench {
	c := *b
	c.t = t
	return &c
}

// header is a request's headers as pairs.
type header map[string]string

// send sends a request; a body that is not empty is JSON unless the headers say otherwise.
func (b *bench) send(method, path, body string, h header) *http.Response {
	b.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, reader)
	if err != nil {
		b.t.Fatalf("make the request: %v", err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range h {
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		default:
			req.Header.Set(name, value)
		}
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", method, path, err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// text sends a request and reads the whole answer.
func (b *bench) text(method, path, body string, h header) (*http.Response, string) {
	b.t.Helper()
	resp := b.send(method, path, body, h)
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatalf("%s %s: read the answer: %v", method, path, err)
	}
	return resp, string(data)
}

// problem is problem details as a client reads them.
type problem struct {
	Type, Title, Detail, Reason string
	Status, RetryAfterSeconds   int
	Metadata                    map[string]string
	Violations                  []struct{ Field, Description string }
}

// problem sends a request that is to fail with a status.
func (b *bench) problem(method, path, body string, h header, status int) (*http.Response, problem) {
	b.t.Helper()
	resp, text := b.text(method, path, body, h)
	if resp.StatusCode != status {
		b.t.Fatalf("%s %s: status %d, want %d: %s", method, path, resp.StatusCode, status, text)
	}
	return resp, readProblem(b.t, resp, text)
}

func readProblem(t *testing.T, resp *http.Response, text string) problem {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q, want application/problem+json", got)
	}
	var p problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatalf("the problem is not JSON: %v: %s", err, text)
	}
	if p.Status != resp.StatusCode || p.Title == "" || p.Detail == "" || p.Type != "https://pawl.dev/problems/"+p.Reason {
		t.Errorf("problem is not complete or not that of status %d: %s", resp.StatusCode, text)
	}
	return p
}

// lines reads a stream line by line.
type lines struct {
	t       *testing.T
	scanner *bufio.Scanner
}

func readLines(t *testing.T, r io.Reader) *lines { return &lines{t, bufio.NewScanner(r)} }

// next is the next line; it fails the test at the end.
func (l *lines) next() string {
	l.t.Helper()
	if !l.scanner.Scan() {
		l.t.Fatalf("the stream ended early: %v", l.scanner.Err())
	}
	return l.scanner.Text()
}

// want reads these lines.
func (l *lines) want(want ...string) {
	l.t.Helper()
	for _, w := range want {
		if got := l.next(); got != w {
			l.t.Fatalf("line %q, want %q", got, w)
		}
	}
}
