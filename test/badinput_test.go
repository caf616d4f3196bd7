package test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"

	"pawl.dev/test/rig"
)

// Bad input over HTTP is answered with a clear error, and the server continues.
func TestBadInputOverHTTP(t *testing.T) {
	target := rig.Binary(t, binaries, rig.Options{Workspace: workspace(t)})
	for name, tc := range map[string]struct {
		method, path, body string
		code               int
		says               string
	}{
		"malformed JSON":   {http.MethodPost, "/v1/tasks", `{"goal": "x",`, 400, "JSON"},
		"unknown field":    {http.MethodPost, "/v1/tasks", `{"goal":"x","gaol":"y"}`, 400, "gaol"},
		"wrong type":       {http.MethodPost, "/v1/tasks", `{"goal":7}`, 400, "goal"},
		"10 MiB":           {http.MethodPost, "/v1/tasks", `{"goal":"` + strings.Repeat("x", 10<<20) + `"}`, 413, "large"},
		"empty body":       {http.MethodPost, "/v1/tasks", ``, 400, "goal"},
		"unknown path":     {http.MethodGet, "/v1/nothing", ``, 404, ""},
		"wrong method":     {http.MethodDelete, "/v1/tasks", ``, 405, ""},
		"not an id":        {http.MethodGet, "/v1/tasks/abc", ``, 400, "id"},
		"no such task":     {http.MethodGet, "/v1/tasks/00000000-0000-7000-8000-000000000000", ``, 404, "pawl tasks"},
		"bad page token":   {http.MethodGet, "/v1/tasks?pageToken=rubbish", ``, 400, "pageToken"},
		"no such command":  {http.MethodGet, "/v1/mcpServers/missing/tools", ``, 503, "pawl-no-such-program"},
		"no answer":        {http.MethodPost, "/v1/tasks/00000000-0000-7000-8000-000000000000:resume", `{"waitId":"w"}`, 400, "answer"},
		"input not fit":    {http.MethodPost, "/v1/mcpServers/t/tools:call", `{"name":"echo","input":{"text":7}}`, 400, "text"},
		"no such tool":     {http.MethodPost, "/v1/mcpServers/t/tools:call", `{"name":"nothing"}`, 404, "nothing"},
		"stdio and http":   {http.MethodPost, "/v1/mcpServers?mcpServerId=x", `{"stdio":{"command":"x"},"http":{"url":"http://x"}}`, 400, ""},
		"id is no slug":    {http.MethodPost, "/v1/mcpServers?mcpServerId=a/b", `{"stdio":{"command":"x"}}`, 400, "mcpServerId"},
		"url is not a url": {http.MethodPost, "/v1/mcpServers?mcpServerId=x", `{"http":{"url":"x y"}}`, 400, "url"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "no such command" {
				register(t, target, "missing", "pawl-no-such-program")
			}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, target.HTTP+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			code, body := get(t, req)
			if code != tc.code || !strings.Contains(body, tc.says) || !strings.Contains(body, `"reason"`) {
				t.Errorf("%d %.500s\nwant %d with %q and a reason", code, body, tc.code, tc.says)
			}
		})
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target.HTTP+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, req); code != http.StatusOK {
		t.Errorf("after all that: %d %s", code, body)
	}
}

func register(t *testing.T, target *rig.Target, id, command string) {
	t.Helper()
	_, err := mcppoolv1.NewMcpPoolServiceClient(target.Pool).CreateMcpServer(t.Context(), &mcppoolv1.CreateMcpServerRequest{
		McpServerId: id, McpServer: &mcppoolv1.McpServer{AutoActivate: true, Transport: &mcppoolv1.McpServer_Stdio{Stdio: &mcppoolv1.StdioTransport{Command: command}}},
	})
	if err != nil {
		t.Fatal(errs.From(err))
	}
}

// Wrong starts are refused with a clear error: a data folder in use, a port in use, files that cannot be read, addresses that must not be bound.
func TestStartsThatCannotWork(t *testing.T) {
	dir, addr, web := t.TempDir(), rig.FreeAddr(t), rig.FreeAddr(t)
	rig.Start(t, binaries.Pawl, "up", "--data", dir, "--grpc", addr, "--http", web)
	awaitPort(t.Context(), t, web)
	broken := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(broken, []byte("{\n  \"mcpServers\": {,}\n}"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := func() string { return rig.FreeAddr(t) }
	for name, tc := range map[string]struct {
		args []string
		says []string
	}{
		"data folder in use": {[]string{"up", "--data", dir, "--grpc", free(), "--http", free()}, []string{"pid", addr}},
		"port in use":        {[]string{"up", "--data", t.TempDir(), "--grpc", free(), "--http", web}, []string{web, "in use"}},
		"broken MCP file":    {[]string{"up", "--data", t.TempDir(), "--grpc", free(), "--http", free(), "--mcp-config", broken}, []string{broken + ":2:"}},
		"missing MCP file":   {[]string{"up", "--data", t.TempDir(), "--grpc", free(), "--http", free(), "--mcp-config", broken + ".no"}, []string{"no such file"}},
		"open to the world":  {[]string{"up", "--data", t.TempDir(), "--grpc", "0.0.0.0:0", "--http", free()}, []string{"key file"}},
		"no such flag":       {[]string{"up", "--prot", "1"}, []string{"--prot"}},
		"no such folder":     {[]string{"up", "--data", t.TempDir(), "--grpc", free(), "--http", free(), "--workspace", dir + "/none"}, []string{"none"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
			defer cancel()
			out, err := exec.CommandContext(ctx, binaries.Pawl, tc.args...).CombinedOutput()
			if err == nil || ctx.Err() != nil {
				t.Fatalf("it started: %v %s", ctx.Err(), out)
			}
			for _, want := range tc.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("says %q, want %q in it", out, want)
				}
			}
		})
	}
}

const startTimeout = caseTimeout
