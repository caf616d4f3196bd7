package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// dot is the beginning of a PNG file.
var dot = []byte("\x89PNG\r\n\x1a\n")

// A Node client that loads the protos at run time follows a task of four processes to its end, also with mutual TLS and a key (issue 13).
func TestNodeClient(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(rig.NPM(t, ".", "@grpc/grpc-js")))
	run := func(t *testing.T, args []string, env ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "node", append(append([]string{"../clients/node/run-task.mjs"}, args...), "Which files mention the word ratchet?")...)
		cmd.Env = append(append(os.Environ(), "PAWL_NODE_MODULES="+modules), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	succeeds := func(t *testing.T, args []string, env ...string) {
		out, err := run(t, args, env...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"1 status_changed", "flow_start", "step_output workspace/search_code", "flow_success", "src/spring.go"} {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in:\n%s", want, out)
			}
		}
	}
	t.Run("plain", func(t *testing.T) {
		succeeds(t, []string{rig.FourProcesses(t, binaries, rig.Options{Workspace: workspace(t)}).Executor.Target()})
	})
	t.Run("mutual TLS", func(t *testing.T) {
		dir := makeCerts(t, t.TempDir())
		files := rig.Certificate(dir, "client")
		target, user := secured(t, dir)
		addr := target.Executor.Target()
		succeeds(t, []string{"https://" + addr, "--ca", files.CA, "--client-cert", files.Cert, "--client-key", files.Key}, "PAWL_KEY="+user)
		succeeds(t, []string{addr}, "PAWL_KEY="+user, "PAWL_CA="+files.CA, "PAWL_CLIENT_CERT="+files.Cert, "PAWL_CLIENT_KEY="+files.Key)
		for name, args := range map[string][]string{
			"another authority": {"https://" + addr, "--client-cert", files.Cert, "--client-key", files.Key},
			"no TLS":            {addr},
		} {
			if out, err := run(t, args, "PAWL_KEY="+user); err == nil || !strings.Contains(out, "14: No connection") {
				t.Errorf("%s: %v %s", name, err, out)
			}
		}
	})
}

// Servers of others, over stdio, streamable HTTP and the HTTP transport before it: every tool of each is called.
func TestForeignServers(t *testing.T) {
	bin := rig.NPM(t, ".", ".bin")
	files, graph := t.TempDir(), filepath.Join(t.TempDir(), "graph.jsonl")
	write(t, filepath.Join(files, "hello.txt"), []byte("a pawl holds the wheel\n"))
	write(t, filepath.Join(files, "dot.png"), dot)
	program := func(name string, args ...string) map[string]any {
		// Tools of server-everything depend on the capabilities of the client.
		return map[string]any{"command": filepath.Join(bin, name), "args": args, "pinning": "allow_new", "roots": []string{files}}
	}
	web := func(url string) map[string]any {
		return map[string]any{"url": url, "pinning": "allow_new", "roots": []string{files}}
	}
	memory := program("mcp-server-memory")
	memory["env"] = map[string]string{"MEMORY_FILE_PATH": graph}
	target := rig.InProcess(t, rig.Options{Servers: map[string]any{
		"files": program("mcp-server-filesystem", files), "memory": memory, "thinking": program("mcp-server-sequential-thinking"),
		"everything":      program("mcp-server-everything", "stdio"),
		"everything-http": web(everythingOver(t, bin, "streamableHttp") + "/mcp"), "everything-sse": web(everythingOver(t, bin, "sse") + "/sse"),
	}})
	pool := mcppoolv1.NewMcpPoolServiceClient(target.Pool)
	for id, uses := range map[string][]use{
		"files": filesUses(files), "memory": memoryUses(graph), "thinking": thinkingUses(),
		"everything": everythingUses(files), "everything-http": everythingUses(files), "everything-sse": everythingUses(files),
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			useAll(t, pool, id, uses)
			if strings.HasPrefix(id, "everything") {
				t.Run("cancel", func(t *testing.T) { cancelled(t, pool, id) })
				everythingElse(t, pool, id)
			}
		})
	}
}

// cancelled checks that a long-running call ends at once when it is cancelled.
func cancelled(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id string) {
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	req := &mcppoolv1.CallToolRequest{McpId: id, CallId: id + "/cancelled", Name: "trigger-long-running-operation", InputJson: `{"duration":30,"steps":60}`}
	begun := time.Now()
	stream, err := pool.CallTool(ctx, req)
	for err == nil {
		var m *mcppoolv1.CallToolResponse
		if m, err = stream.Recv(); err == nil && m.GetProgress().GetProgress() == 1 {
			_, err = pool.CancelCall(ctx, &mcppoolv1.CancelCallRequest{CallId: req.GetCallId()})
		}
	}
	if status.Code(err) != codes.Canceled || time.Since(begun) > 20*time.Second {
		t.Errorf("%v after %s, want Canceled at once", err, time.Since(begun))
	}
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// everythingOver starts server-everything over a transport of HTTP and returns its address.
func everythingOver(t *testing.T, bin, transport string) string {
	t.Helper()
	addr := rig.FreeAddr(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	t.Setenv("PORT", port)
	rig.Start(t, filepath.Join(bin, "mcp-server-everything"), transport)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	awaitPort(ctx, t, "localhost:"+port)
	return "http://localhost:" + port
}
