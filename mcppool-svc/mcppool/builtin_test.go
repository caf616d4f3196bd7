package mcppool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// closeCounter counts how often it was closed.
type closeCounter struct{ n atomic.Int32 }

func (c *closeCounter) Close() error { c.n.Add(1); return nil }

// echo is a built-in server with one tool, which only reads. Each connection closes closer; nil closes nothing.
func echo(closer io.Closer) Builtin {
	return Builtin{Open: func() (*server.MCPServer, io.Closer, error) {
		s := server.NewMCPServer("echo", "1")
		s.AddTool(mcp.NewTool("echo", mcp.WithString("text"), mcp.WithReadOnlyHintAnnotation(true)),
			func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText(req.GetString("text", "")), nil
			})
		return s, closer, nil
	}}
}

// Built-in servers of the embedding program are shared, trusted, and closed with their connections.
func TestBuiltins(t *testing.T) {
	var ended closeCounter
	s := startWith(t, Config{Workspace: t.TempDir()}, Deps{Builtins: map[string]Builtin{"echo": echo(&ended), "bare": echo(nil)}})
	for _, user := range []string{"ann", "bob"} {
		list, err := s.as(user).ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "echo"})
		if err != nil || len(list.GetTools()) != 1 || list.GetTools()[0].GetEffect() != commonv1.Effect_EFFECT_READ {
			t.Fatalf("%s: %v, %v", user, list, err)
		}
	}
	for _, id := range []string{"echo", "bare"} {
		if got := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: id, Name: "echo", InputJson: `{"text":"hi"}`}); got.err != nil || got.text() != "hi" {
			t.Errorf("%s: %q, %v", id, got.text(), got.err)
		}
	}
	for _, id := range []string{"echo", "workspace"} {
		_, err := s.as("op").DeleteMcpServer(t.Context(), &mcppoolv1.DeleteMcpServerRequest{Id: id})
		wantReason(t, err, "READ_ONLY", "is built in") // and does not tell the user to edit a file
	}
	if err := s.Close(); err != nil || ended.n.Load() != 2 {
		t.Errorf("%v; %d of 2 connections of ann and bob were closed", err, ended.n.Load())
	}
}

// D12: a workspace is changed only as its registration allows, at each call; a repeated call is not made twice.
func TestD12WorkspaceIsChangedAsRegistered(t *testing.T) {
	s := start(t, Config{})
	root := t.TempDir()
	registered := create(t, s.as("op"), &mcppoolv1.McpServer{
		Id: "files", Transport: &mcppoolv1.McpServer_Builtin{Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: root}},
	})
	if _, err := s.as("op").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "files"}); err != nil {
		t.Fatal(err)
	}
	write := func(callID string) reply {
		return invoke(t, s.as("op"), &mcppoolv1.CallToolRequest{
			McpId: "files", Name: "write_file", InputJson: `{"path":"a.txt","content":"hello"}`, CallId: callID, IdempotencyKey: "task/1",
		})
	}
	if got := write("1"); got.err == nil {
		t.Error("a read-only workspace was written")
	}
	registered.GetBuiltin().Workspace = &mcppoolv1.Workspace{Write: true}
	changed, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: registered})
	if err != nil || changed.GetEtag() == registered.GetEtag() || !changed.GetBuiltin().GetWorkspace().GetWrite() {
		t.Fatalf("%v, %v", changed, err)
	}
	first := write("2")
	if first.err != nil || first.result.GetIsError() {
		t.Fatalf("%v, %v", first.result, first.err)
	}
	if err := os.Remove(filepath.Join(root, "a.txt")); err != nil {
		t.Fatal(err)
	}
	again := write("3")
	if _, err := os.Stat(filepath.Join(root, "a.txt")); again.result.GetStructuredJson() != first.result.GetStructuredJson() || err == nil {
		t.Errorf("a repeated call: %v, %v; the file was written again: %v", again.result, again.err, err == nil)
	}
	changed.GetBuiltin().Workspace = nil
	if _, err := s.as("op").UpdateMcpServer(t.Context(), &mcppoolv1.UpdateMcpServerRequest{McpServer: changed}); err != nil {
		t.Fatal(err)
	}
	if got := write("4"); got.err == nil {
		t.Error("a workspace that is read-only again was written")
	}
}

// D12: a program that a registration allows runs in the pool's sandbox, and ends with its call.
func TestD12WorkspaceRunsPrograms(t *testing.T) {
	s := start(t, Config{})
	root := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(root, "pids"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, s.as("op"), &mcppoolv1.McpServer{Id: "files", Transport: &mcppoolv1.McpServer_Builtin{
		Builtin: &mcppoolv1.BuiltinTransport{Name: "workspace", Root: root, Workspace: &mcppoolv1.Workspace{Write: true, Commands: []string{"sh"}}},
	}})
	if _, err := s.as("op").ActivateMcpServer(t.Context(), &mcppoolv1.ActivateMcpServerRequest{Id: "files"}); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, script string) reply {
		return invokeCtx(ctx, s.as("op"), &mcppoolv1.CallToolRequest{McpId: "files", Name: "execute_command", InputJson: fmt.Sprintf(`{"argv":["sh","-c",%q]}`, script)})
	}
	if got := run(t.Context(), "echo hello; exit 3"); got.err != nil || got.result.GetIsError() || !strings.Contains(got.result.GetStructuredJson(), `"exit_code":3`) {
		t.Errorf("%v, %v", got.result, got.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan reply, 1)
	go func() { ended <- run(ctx, "trap '' TERM; (setsid sleep 600 & echo $! > pids); sleep 600") }()
	line, err := os.ReadFile(filepath.Join(root, "pids")) // blocks until the script writes
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(line)))
	cancel()
	if got := <-ended; got.err == nil {
		t.Errorf("a cancelled call: %v", got.result)
	}
	if err != nil || convErr != nil || !mcptest.Gone(pid, 10*time.Second) {
		t.Errorf("process %q survived its call: %v, %v", line, err, convErr)
	}
}

func TestInvalidBuiltins(t *testing.T) {
	for says, deps := range map[string]struct {
		builtins map[string]Builtin
		cfg      Config
	}{
		"is not an id":                    {map[string]Builtin{"An Echo": echo(nil)}, Config{}},
		"the pool's own":                  {map[string]Builtin{"workspace": echo(nil)}, Config{}},
		"neither a constructor nor tools": {map[string]Builtin{"echo": {}}, Config{}},
		"one of the two":                  {map[string]Builtin{"echo": {Open: echo(nil).Open, Tools: []Func{nothing}}}, Config{}},
		"needs a Name":                    {map[string]Builtin{"echo": {Tools: []Func{{Call: nothing.Call}}}}, Config{}},
		"and a Call":                      {map[string]Builtin{"echo": {Tools: []Func{{Name: "a"}}}}, Config{}},
		"has the same name":               {map[string]Builtin{"echo": {Tools: []Func{nothing, nothing}}}, Config{}},
		"input schema":                    {map[string]Builtin{"echo": {Tools: []Func{{Name: "a", Call: nothing.Call, Input: []byte(`{"type":7}`)}}}}, Config{}},
		"output schema":                   {map[string]Builtin{"echo": {Tools: []Func{{Name: "a", Call: nothing.Call, Output: []byte(`{`)}}}}, Config{}},
		"rename the server":               {map[string]Builtin{"echo": echo(nil)}, Config{MCPConfigs: []string{fakeConfig(t, map[string]string{"echo": mcptest.Good})}}},
	} {
		s, err := New(t.Context(), deps.cfg, Deps{Builtins: deps.builtins})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}

// If Open fails, connecting fails with its error.
func TestBuiltinThatFails(t *testing.T) {
	s := startWith(t, Config{}, Deps{Builtins: map[string]Builtin{
		"broken": {Open: func() (*server.MCPServer, io.Closer, error) { return nil, nil, errors.New("no licence") }},
		"none":   {Open: func() (*server.MCPServer, io.Closer, error) { return nil, nil, nil }},
	}})
	for id, says := range map[string]string{"broken": "no licence", "none": "returned nil"} {
		_, err := s.as("ann").ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: id})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", id, err)
		}
	}
}
