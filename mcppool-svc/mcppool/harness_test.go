package mcppool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
	"pawl.dev/services/errs"
	"pawl.dev/services/grpctest"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

func TestMain(m *testing.M) {
	mcptest.Main()
	goleak.VerifyTestMain(m)
}

// suite is a pool behind the real interceptors, with users.
type suite struct {
	*Service
	users map[string]mcppoolv1.McpPoolServiceClient
	dial  func(token string) *grpc.ClientConn
	keys  *identity.KeyFile
}

func (s *suite) as(user string) mcppoolv1.McpPoolServiceClient { return s.users[user] }

// clock is the current time plus what tests add with move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) move(d time.Duration) { c.ahead.Add(int64(d)) }

// start runs a pool with the operator `op`, the users `ann` and `bob`, and the service `svc`.
func start(t *testing.T, cfg Config) *suite {
	t.Helper()
	return startWith(t, cfg, Deps{})
}

func startWith(t *testing.T, cfg Config, deps Deps) *suite {
	t.Helper()
	service, err := New(t.Context(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := identity.OpenKeyFile(filepath.Join(t.TempDir(), "keys.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- service.Run(ctx) }()
	// Registered before the server's cleanup, and so run after it.
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, service.Close()); err != nil {
			t.Error(err)
		}
	})
	s := &suite{Service: service, users: make(map[string]mcppoolv1.McpPoolServiceClient)}
	s.keys, s.dial = keys, grpctest.Server(t, service.Register, serve.Options{Auth: keys})
	for sub, roles := range map[string][]identity.Role{
		"ann": {identity.RoleUser}, "bob": {identity.RoleUser},
		"op": {identity.RoleUser, identity.RoleOperator}, "svc": {identity.RoleService},
	} {
		s.users[sub] = mcppoolv1.NewMcpPoolServiceClient(s.dial(keys.Ephemeral(sub, roles)))
	}
	return s
}

// fakeConfig writes a configuration file with fake servers by name and mode.
func fakeConfig(t testing.TB, servers map[string]string) string {
	t.Helper()
	all := make(map[string]any)
	for name, mode := range servers {
		s := mcptest.Stdio(mode)
		all[name] = map[string]any{"command": s.Command, "env": s.Env}
	}
	return writeConfig(t, map[string]any{"mcpServers": all})
}

func writeConfig(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fake is a message that registers a fake server.
func fake(id, mode string) *mcppoolv1.McpServer {
	s := mcptest.Stdio(mode)
	return &mcppoolv1.McpServer{Id: id, AutoActivate: true, Transport: &mcppoolv1.McpServer_Stdio{
		Stdio: &mcppoolv1.StdioTransport{Command: s.Command, Env: s.Env},
	}}
}

// reply is what the client gets for a call: its events, and its result or error.
type reply struct {
	events []*mcppoolv1.CallToolResponse
	result *mcppoolv1.CallResult
	err    error
}

// text joins the text content.
func (o reply) text() string {
	var b strings.Builder
	for _, c := range o.result.GetContent() {
		b.WriteString(c.GetText())
	}
	return b.String()
}

// reason is the error's ErrorReason.
func (o reply) reason() string { return errs.ReasonName(errs.Reason(o.err)) }

// outcome is the error's outcome; "" without an error.
func (o reply) outcome() string {
	if o.err == nil {
		return ""
	}
	return errs.From(o.err).Metadata[errs.OutcomeKey]
}

func invoke(t *testing.T, c mcppoolv1.McpPoolServiceClient, req *mcppoolv1.CallToolRequest) reply {
	t.Helper()
	return invokeCtx(t.Context(), c, req)
}

func invokeCtx(ctx context.Context, c mcppoolv1.McpPoolServiceClient, req *mcppoolv1.CallToolRequest) reply {
	stream, err := c.CallTool(ctx, req)
	if err != nil {
		return reply{err: err}
	}
	return drain(stream)
}

func drain(stream grpc.ServerStreamingClient[mcppoolv1.CallToolResponse]) reply {
	var o reply
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			o.err = err
			return o
		}
		if r := m.GetResult(); r != nil {
			o.result = r
			continue
		}
		o.events = append(o.events, m)
	}
}

// wantReason fails unless an error has a reason and its message holds a text.
func wantReason(t *testing.T, err error, reason, text string) {
	t.Helper()
	if got := errs.ReasonName(errs.Reason(err)); err == nil || got != reason || !strings.Contains(errs.From(err).Message, text) {
		t.Errorf("error = %v, want %s with %q", err, reason, text)
	}
}

// waitLimit is how long a process that was told to end may take.
const waitLimit = 5 * time.Second

func mustAtoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
