package suite_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/internal/clitest"
	"pawl.dev/cmd/suite"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
)

// slowTool starts an MCP server with one tool, which sends on called and returns once let is closed.
func slowTool(t *testing.T) (url string, called, let chan struct{}) {
	t.Helper()
	called, let = make(chan struct{}, 1), make(chan struct{})
	web := httptest.NewServer(server.NewStreamableHTTPServer(clitest.NewMCP(clitest.MCPTool{
		Name: "work", Schema: `{"type":"object"}`,
		Call: func(context.Context, map[string]any) (string, error) {
			called <- struct{}{}
			<-let
			return "worked", nil
		},
	})))
	t.Cleanup(web.Close)
	return web.URL + "/mcp", called, let
}

const playbook = `
name: work
steps:
  - id: work
    tool: slow/work
`

// A stop in the middle of a tool call: the call finishes, its outcome is recorded, and the next suite goes on from there
// without calling it again.
func TestStopInTheMiddleOfACall(t *testing.T) {
	url, called, let := slowTool(t)
	dir := t.TempDir()
	s, stop := start(t, suite.Config{DataDir: dir})
	pool := mcppoolv1.NewMcpPoolServiceClient(s.Conn())
	_, err := pool.CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{McpServerId: "slow", McpServer: &mcppoolv1.McpServer{
		AutoActivate: true, Transport: &mcppoolv1.McpServer_Http{Http: &mcppoolv1.HttpTransport{Url: url}},
		ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"*": {Effect: 2, RiskFloor: 1}}, // it writes, and no person is asked
	}})
	if err != nil {
		t.Fatal(err)
	}
	auto := true
	task, err := executorv1.NewExecutorServiceClient(s.Conn()).CreateTask(t.Context(), &executorv1.CreateTaskRequest{Playbook: playbook, AutoExecute: &auto})
	if err != nil {
		t.Fatal(err)
	}
	<-called
	health, err := healthv1.NewHealthClient(s.Conn()).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	for status := healthv1.HealthCheckResponse_SERVING; status == healthv1.HealthCheckResponse_SERVING; {
		resp, err := health.Recv()
		if err != nil {
			t.Fatal(err)
		}
		status = resp.GetStatus()
	}
	close(let)
	<-stopped

	s, _ = start(t, suite.Config{DataDir: dir})
	client := executorv1.NewExecutorServiceClient(s.Conn())
	watch(t, client, task.GetId())
	steps, err := client.ListSteps(t.Context(), &executorv1.ListStepsRequest{Id: task.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	if got := steps.GetSteps()[0]; got.GetStatus() != executorv1.StepStatus_STEP_STATUS_SUCCESS || got.GetAttempt() != 1 {
		t.Errorf("step: %v", got)
	}
	select {
	case <-called:
		t.Error("it was called again")
	default:
	}
}

// watch follows a task to its end.
func watch(t *testing.T, client executorv1.ExecutorServiceClient, id string) {
	t.Helper()
	stream, err := client.WatchTask(t.Context(), &executorv1.WatchTaskRequest{Id: id}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}
