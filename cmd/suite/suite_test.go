package suite_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"pawl.dev/cmd/internal/discover"
	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a suite until the test ends; stop ends it before.
func start(t *testing.T, cfg suite.Config) (s *suite.Suite, stop func()) {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	s, err := suite.New(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	t.Cleanup(stop)
	return s, stop
}

func dial(t *testing.T, addr, key string) *grpc.ClientConn {
	t.Helper()
	conn, err := serve.Dial(addr, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

const here = "127.0.0.1:0"

func TestAllServicesAnswerEverywhere(t *testing.T) {
	dir := t.TempDir()
	s, stop := start(t, suite.Config{DataDir: dir, GRPCAddr: here, HTTPAddr: here, Workspace: t.TempDir(), Version: "v1"})
	for name, conn := range map[string]grpc.ClientConnInterface{"in process": s.Conn(), "gRPC": dial(t, s.GRPCAddr(), "")} {
		_, err1 := executorv1.NewExecutorServiceClient(conn).ListTasks(t.Context(), &executorv1.ListTasksRequest{}, grpc.WaitForReady(true))
		_, err2 := executorv1.NewAgentServiceClient(conn).ListAgents(t.Context(), &executorv1.ListAgentsRequest{})
		_, err3 := plannerv1.NewPlannerServiceClient(conn).ListModels(t.Context(), &plannerv1.ListModelsRequest{})
		tools, err4 := mcppoolv1.NewMcpPoolServiceClient(conn).ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "workspace"})
		if err := errors.Join(err1, err2, err3, err4); err != nil || len(tools.GetTools()) == 0 {
			t.Errorf("%s: %v, %d tools", name, err, len(tools.GetTools()))
		}
		health, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil || health.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("%s: health %v, %v", name, health, err)
		}
	}
	for _, path := range []string{"/readyz", "/v1/tasks", "/v1/models"} {
		resp, err := http.Get("http://" + s.HTTPAddr() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	info := discover.ReadServerFile(dir)
	if info == nil || info.PID != os.Getpid() || info.GRPC != s.GRPCAddr() || info.HTTP != s.HTTPAddr() || info.Version != "v1" {
		t.Errorf("server.json: %+v", info)
	}
	stop()
	if info := discover.ReadServerFile(dir); info != nil {
		t.Errorf("server.json stays: %+v", info)
	}
}

func TestNotListening(t *testing.T) {
	s, _ := start(t, suite.Config{})
	if s.GRPCAddr() != "" || s.HTTPAddr() != "" {
		t.Errorf("it listens at %q and %q", s.GRPCAddr(), s.HTTPAddr())
	}
	if _, err := executorv1.NewExecutorServiceClient(s.Conn()).ListTasks(t.Context(), &executorv1.ListTasksRequest{}); err != nil {
		t.Error(err)
	}
}

func TestTheDataFolderIsHeldByOne(t *testing.T) {
	dir := t.TempDir()
	_, stop := start(t, suite.Config{DataDir: dir})
	if _, err := suite.New(t.Context(), suite.Config{DataDir: dir}, nil); !errors.Is(err, suite.ErrLocked) {
		t.Fatalf("got %v", err)
	}
	stop()
	_, _ = start(t, suite.Config{DataDir: dir})
}

// If New fails, nothing stays open: the data folder and the addresses are free for the next suite.
func TestNewThatFailsClosesEverything(t *testing.T) {
	taken, err := net.Listen("tcp", here)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", here)
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, cfg := range map[string]suite.Config{
		"is in use; choose another":           {HTTPAddr: taken.Addr().String()},
		"not host:port":                       {HTTPAddr: "nonsense"},
		"refusing to listen on \"0.0.0.0:0\"": {HTTPAddr: "0.0.0.0:0"},
		"is not a folder":                     {Workspace: file},
		"file":                                {MCPConfigs: []string{file}},
		"there is no model":                   {DefaultModel: "no-such-model"},
		"key file":                            {KeysFile: file},
	} {
		cfg.DataDir, cfg.GRPCAddr = dir, addr
		if _, err := suite.New(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	if _, err := suite.New(t.Context(), suite.Config{}, nil); err == nil {
		t.Error("there is no data folder")
	}
	_, _ = start(t, suite.Config{DataDir: dir, GRPCAddr: addr})
}

// With keys, each service authenticates each call, and the services can still call each other.
func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	keys, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := func(sub string) string {
		token, _, err := keys.Add(identity.Key{Sub: sub, Roles: []identity.Role{identity.RoleUser}})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	aliceKey := token("alice")
	s, _ := start(t, suite.Config{GRPCAddr: "0.0.0.0:0", KeysFile: path, TLS: serve.TLS{Insecure: true}, Workspace: root})
	_, port, _ := net.SplitHostPort(s.GRPCAddr())
	alice := executorv1.NewExecutorServiceClient(dial(t, "127.0.0.1:"+port, aliceKey))
	bob := executorv1.NewExecutorServiceClient(dial(t, "127.0.0.1:"+port, token("bob")))
	keyless := executorv1.NewExecutorServiceClient(dial(t, "127.0.0.1:"+port, ""))
	task := run(t, alice, "How many Go files are there?")
	if !strings.Contains(task.GetFullAnswer(), "1 Go file") {
		t.Errorf("answer %q", task.GetFullAnswer())
	}
	if _, err := bob.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: task.GetId()}); status.Code(err) != codes.NotFound {
		t.Errorf("another user's task: %v", err)
	}
	if _, err := keyless.ListTasks(t.Context(), &executorv1.ListTasksRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: %v", err)
	}
	if _, err := executorv1.NewExecutorServiceClient(s.Conn()).ListTasks(t.Context(), &executorv1.ListTasksRequest{}); err != nil {
		t.Errorf("in process: %v", err)
	}
}

// run works a goal through and returns the task.
func run(t *testing.T, client executorv1.ExecutorServiceClient, goal string) *executorv1.Task {
	t.Helper()
	auto := true
	stream, err := client.RunTask(t.Context(), &executorv1.RunTaskRequest{
		Task: &executorv1.CreateTaskRequest{Goal: goal, AutoExecute: &auto},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	id := ""
	for {
		ev, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		id = ev.GetTaskId()
	}
	task, err := client.GetTask(t.Context(), &executorv1.GetTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// A watcher does not hold up the stop: its stream ends with SHUTTING_DOWN.
func TestStopEndsWatchers(t *testing.T) {
	s, stop := start(t, suite.Config{GRPCAddr: here, HTTPAddr: here, Workspace: t.TempDir()})
	client := executorv1.NewExecutorServiceClient(dial(t, s.GRPCAddr(), ""))
	task, err := client.CreateTask(t.Context(), &executorv1.CreateTaskRequest{Goal: "How many Go files are there?"}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + s.HTTPAddr() + "/v1/tasks/" + task.GetId() + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for {
		ev, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if ev.GetType() == executorv1.EventType_EVENT_TYPE_FLOW_STOP {
			break
		}
	}
	began := time.Now()
	stop()
	const grace = 10 * time.Second // of the gateway and of gRPC, which a stream that stays open would use up
	if took := time.Since(began); took >= grace {
		t.Errorf("the stop took %s", took)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watcher was told %v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Logf("the event stream: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
