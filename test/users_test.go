package test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/identity"

	"pawl.dev/test/rig"
)

// Two users with keys, tasks and servers of their own: neither sees anything of the other.
func TestTwoUsers(t *testing.T) {
	for name, start := range map[string]func(testing.TB, rig.Options) *rig.Target{
		"in-process":     rig.InProcess,
		"four-processes": func(t testing.TB, o rig.Options) *rig.Target { return rig.FourProcesses(t, binaries, o) },
	} {
		t.Run(name, func(t *testing.T) { twoUsers(t, start) })
	}
}

// keys makes a key file, and returns its path and a function that adds a key to it.
func keys(t *testing.T) (path string, key func(sub string, roles ...identity.Role) string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "keys.yaml")
	file, err := identity.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, func(sub string, roles ...identity.Role) string {
		k := identity.Key{Sub: sub, Roles: roles, Note: "a test"}
		if roles[0] == identity.RoleService { // the executor, which needs no other methods
			k.Methods = []string{"pawl.planner.v1.*", "pawl.mcppool.v1.McpPoolService/*"}
		}
		token, _, err := file.Add(k)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
}

func twoUsers(t *testing.T, start func(testing.TB, rig.Options) *rig.Target) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	path, key := keys(t)
	ann, bob := key("ann", identity.RoleUser), key("bob", identity.RoleUser)
	op := key("olga", identity.RoleUser, identity.RoleOperator)
	target := start(t, rig.Options{Keys: path, Key: op, ServiceKey: key("executor", identity.RoleService), Workspace: workspace(t)})
	pool := func(key string) mcppoolv1.McpPoolServiceClient {
		return mcppoolv1.NewMcpPoolServiceClient(rig.Dial(t, target.Pool.Target(), key))
	}
	tasks := func(key string) rig.Client { return rig.NewGRPC(rig.Dial(t, target.Executor.Target(), key)) }

	// A stdio server for ann alone, registered by the operator: users may not register such.
	stdio := func(owner string) *mcppoolv1.CreateMcpServerRequest {
		return &mcppoolv1.CreateMcpServerRequest{McpServerId: "own", McpServer: &mcppoolv1.McpServer{
			OwnerSub: owner, AutoActivate: true,
			ToolPolicies: map[string]*mcppoolv1.ToolPolicy{"*": {Effect: 1}},
			Transport:    &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: os.Args[0], Env: map[string]string{rig.ServerVariable: "1", "SECRET": "hush"}}},
		}}
	}
	if _, err := pool(ann).CreateMcpServer(ctx, stdio("ann")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user registers a stdio server: %v, want PermissionDenied", err)
	}
	if _, err := pool(op).CreateMcpServer(ctx, stdio("ann")); err != nil {
		t.Fatal(err)
	}
	seen, err := pool(ann).GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: "own"})
	if err != nil || seen.GetStdio().GetEnv()["SECRET"] == "hush" {
		t.Errorf("ann's server: %v, %v; want it without the values of its environment", seen, err)
	}
	if _, err := pool(bob).GetMcpServer(ctx, &mcppoolv1.GetMcpServerRequest{Id: "own"}); status.Code(err) != codes.NotFound {
		t.Errorf("bob sees ann's server: %v", err)
	}
	if list, err := pool(bob).ListMcpServers(ctx, &mcppoolv1.ListMcpServersRequest{}); err != nil || strings.Contains(list.String(), "own") {
		t.Errorf("bob lists ann's server: %v, %v", list, err)
	}

	yes := true
	req := &executorv1.CreateTaskRequest{AutoExecute: &yes, McpIds: []string{"own"}, Playbook: "steps: [{tool: own/echo, input: {text: hello ann}}]"}
	task, err := tasks(ann).Create(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := tasks(ann).Watch(ctx, task.GetId(), 0, func(*executorv1.ExecutorEvent) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if done, err := tasks(ann).Get(ctx, task.GetId()); err != nil || done.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS || done.GetUserSub() != "ann" {
		t.Errorf("ann's task %v, %v", done, err)
	}
	var refused *rig.Refused
	if _, err := tasks(bob).Create(ctx, req); !errors.As(err, &refused) || refused.Reason != "MCP_SERVER_NOT_FOUND" {
		t.Errorf("bob uses ann's server: %v", err)
	}
	for name, client := range map[string]rig.Client{"grpc": tasks(bob), "rest": rig.REST{Base: target.HTTP, Key: bob}, "operator": tasks(op)} {
		if _, err := client.Get(ctx, task.GetId()); !errors.As(err, &refused) || refused.Reason != "TASK_NOT_FOUND" {
			t.Errorf("%s: another user's task: %v, want TASK_NOT_FOUND", name, err)
		}
	}
	if _, err := (rig.REST{Base: target.HTTP}).Get(ctx, task.GetId()); !errors.As(err, &refused) || refused.HTTP != http.StatusUnauthorized {
		t.Errorf("without a key: %v, want 401", err)
	}
	if _, err := (rig.REST{Base: target.HTTP, Key: ann}).Get(ctx, task.GetId()); err != nil {
		t.Errorf("ann over REST: %v", err)
	}
}

// Requests of a page from another origin are refused, even without configuration.
func TestForeignPages(t *testing.T) {
	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t)})
	evil := `{"goal":"go","autoExecute":true}`
	for name, tc := range map[string]struct {
		method, path, body string
		header             map[string]string
		host               string
	}{
		"cross-origin fetch":     {http.MethodPost, "/v1/tasks", evil, map[string]string{"Origin": "https://evil.example", "Content-Type": "application/json"}, ""},
		"form without preflight": {http.MethodPost, "/v1/tasks", evil, map[string]string{"Content-Type": "text/plain"}, ""},
		"form of the same site":  {http.MethodPost, "/v1/tasks", "goal=go", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, ""},
		"rebound name":           {http.MethodGet, "/v1/tasks", "", nil, "evil.example:80"},
		"cross-site read":        {http.MethodGet, "/v1/tasks", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, ""},
		"preflight":              {http.MethodOptions, "/v1/tasks", "", map[string]string{"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, ""},
		"register a program":     {http.MethodPost, "/v1/mcpServers?mcpServerId=x", `{"stdio":{"command":"sh"}}`, map[string]string{"Origin": "null", "Content-Type": "application/json"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tc.method, target.HTTP+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tc.header {
				req.Header.Set(k, v)
			}
			req.Host = tc.host
			code, body := get(t, req)
			if code != http.StatusForbidden && code != http.StatusUnsupportedMediaType {
				t.Errorf("%d %s, want 403 or 415", code, body)
			}
		})
	}
	list, err := rig.NewGRPC(target.Executor).Get(t.Context(), "00000000-0000-7000-8000-000000000000")
	if err == nil {
		t.Errorf("a task appeared: %v", list)
	}
}
