package mcppool

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

func TestFailedConnectShows(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"bad": mcptest.Exit})}})
	_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "bad"})
	wantReason(t, err, "MCP_SERVER_UNAVAILABLE", "exit status 3")
	for user, want := range map[string]mcppoolv1.ConnectionState{
		"ann": mcppoolv1.ConnectionState_CONNECTION_STATE_FAILED, "bob": mcppoolv1.ConnectionState_CONNECTION_STATE_IDLE,
	} {
		got, err := s.as(user).GetMcpServer(t.Context(), &mcppoolv1.GetMcpServerRequest{Id: "bad"})
		if err != nil || got.GetState() != want || (got.GetLastError() != "") != (user == "ann") {
			t.Errorf("%s sees %v, %v", user, got, err)
		}
	}
}

// C2: a call in flight finishes on the old configuration, the next one uses the new.
func TestC2UpdateDuringACall(t *testing.T) {
	s := start(t, Config{})
	create(t, s.as("op"), fake("fake", mcptest.Good))
	op := s.as("op")
	old := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text()
	ended := running(t.Context(), t, op, "wait", "c1")
	changed := fake("fake", mcptest.Good)
	changed.GetStdio().Env["CHANGED"] = "yes"
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: changed}); err != nil {
		t.Fatal(err)
	}
	if o := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "env"}); !strings.Contains(o.text(), "CHANGED=yes") {
		t.Errorf("the next call uses the old configuration: %v", o.err)
	}
	if err := cancelCall(t, op, "c1"); err != nil {
		t.Error(err)
	}
	if o := <-ended; o.text() != "stopped in time" {
		t.Errorf("the call in flight was cut off: %+v", o)
	}
	if !mcptest.Gone(mustAtoi(t, old), waitLimit) {
		t.Error("the old process outlived its last call")
	}
	// A change that does not concern the connection leaves it alone.
	before := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text()
	if _, err := op.UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: &mcppoolv1.McpServer{Id: "fake", Description: "x"}}); err != nil {
		t.Fatal(err)
	}
	if after := invoke(t, op, &mcppoolv1.CallToolRequest{McpId: "fake", Name: "info"}).text(); after != before {
		t.Error("a new description made a new connection")
	}
	ended = running(t.Context(), t, op, "wait", "c2")
	if _, err := op.DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "fake"}); err != nil {
		t.Fatal(err)
	}
	if err := cancelCall(t, op, "c2"); err != nil {
		t.Error(err)
	}
	if o := <-ended; o.text() != "stopped in time" {
		t.Errorf("delete cut off the call in flight: %+v", o)
	}
	if !mcptest.Gone(mustAtoi(t, before), waitLimit) {
		t.Error("the process of a deleted server is still there")
	}
}

func TestWorkspace(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "hello.txt"), []byte("ratchet"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Workspace: root})
	tools := listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "workspace"}).GetTools()
	if tool := toolNamed(t, tools, "read_file"); tool.GetEffect() != commonv1.Effect_EFFECT_READ || tool.GetRiskFloor() != commonv1.RiskLevel_RISK_LEVEL_LOW {
		t.Errorf("read_file: %v", tool)
	}
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "workspace", Name: "read_file", InputJson: `{"path":"hello.txt"}`})
	if o.err != nil || !strings.Contains(o.text(), "ratchet") {
		t.Errorf("read_file: %q, %v", o.text(), o.err)
	}
}

func TestRegistrationsOutliveTheProcess(t *testing.T) {
	cfg := Config{DataDir: t.TempDir()}
	t.Run("before", func(t *testing.T) {
		s := start(t, cfg)
		m := fake("kept", mcptest.Good)
		m.ToolPolicies = map[string]*mcppoolv1.ToolPolicy{"echo": {Effect: commonv1.Effect_EFFECT_READ}}
		create(t, s.as("op"), m)
		create(t, s.as("op"), fake("gone", mcptest.Good))
		if _, err := s.as("op").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: "gone"}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.as("bob").DeactivateMcpServer(t.Context(), &mcppoolv1.DeactivateMcpServerRequest{Id: "kept"}); err != nil {
			t.Fatal(err)
		}
		_, err := New(t.Context(), cfg, Deps{})
		if err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("a second pool on the same folder: %v", err)
		}
	})
	s := start(t, cfg)
	if diff := cmp.Diff([]string{"kept"}, ids(t, s.as("ann"), true)); diff != "" {
		t.Error(diff)
	}
	if list := ids(t, s.as("bob"), true); len(list) != 0 {
		t.Errorf("the deactivation was forgotten: %v", list)
	}
	tool := toolNamed(t, listTools(t, s.as("ann"), &mcppoolv1.ListToolsRequest{McpId: "kept"}).GetTools(), "echo")
	if tool.GetEffect() != commonv1.Effect_EFFECT_READ {
		t.Errorf("the policy was forgotten: %v", tool)
	}
}

func TestNoChildIsLeftAfterClose(t *testing.T) {
	s := start(t, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"good": mcptest.Good, "stubborn": mcptest.Stubborn})}})
	var pids []int
	for _, id := range []string{"good", "stubborn"} {
		for _, user := range []string{"ann", "bob"} {
			pids = append(pids, mustAtoi(t, invoke(t, s.as(user), &mcppoolv1.CallToolRequest{McpId: id, Name: "info", SessionId: "s"}).text()))
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if !mcptest.Gone(pid, 0) {
			t.Errorf("process %d is still there", pid)
		}
	}
	o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "good", Name: "info"})
	if o.reason() != "SHUTTING_DOWN" {
		t.Errorf("call after Close: %+v", o)
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		"file:1:2":     {MCPConfigs: []string{file}},
		"no such file": {MCPConfigs: []string{file + "x"}},
		"it is a file": {Workspace: file},
		"negative":     {MaxConnections: -1},
		"timeouts":     {ProbeAfter: -1},
		"data folder":  {DataDir: filepath.Join(file, "x")},
		"rename":       {Workspace: t.TempDir(), MCPConfigs: []string{fakeConfig(t, map[string]string{"workspace": mcptest.Good})}},
	} {
		if _, err := New(t.Context(), cfg, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

// A server over HTTP that was restarted has forgotten the session; callers of tools do not notice.
func TestLostHTTPSessionIsReplaced(t *testing.T) {
	var generation, calls atomic.Int32
	fresh := func() http.Handler {
		m := mcpserver.NewMCPServer("web", "1")
		m.AddTool(mcp.NewTool("count"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			calls.Add(1)
			return mcp.NewToolResultText("counted"), nil
		})
		return mcpserver.NewStreamableHTTPServer(m)
	}
	var current atomic.Value
	current.Store(fresh())
	sessions := make(map[string]int32)
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(mcp.HeaderMethod) == string(mcp.MethodServerDiscover) {
			w.WriteHeader(http.StatusBadRequest) // it is of a revision that has sessions
			return
		}
		mu.Lock()
		id := r.Header.Get("Mcp-Session-Id")
		if _, seen := sessions[id]; !seen {
			sessions[id] = generation.Load()
		}
		lost := id != "" && sessions[id] != generation.Load()
		mu.Unlock()
		if lost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		current.Load().(http.Handler).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	s := start(t, Config{})
	m := web("web", srv.URL, nil)
	m.AutoActivate = true
	create(t, s.as("op"), m)
	for range 3 {
		if o := invoke(t, s.as("op"), &mcppoolv1.CallToolRequest{McpId: "web", Name: "count", SessionId: "task"}); o.err != nil || o.text() != "counted" {
			t.Errorf("call: %q, %v", o.text(), o.err)
		}
		generation.Add(1)
		current.Store(fresh())
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("the tool ran %d times", n)
	}
}
