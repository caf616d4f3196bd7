package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// npm returns the folder of programs that nobody here wrote. They are installed by `make npm`; where they must be there
// (PAWL_TEST_NPM=required, as in CI), their absence is a failure.
func npm(t *testing.T, program string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("npm", "node_modules", program))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("PAWL_TEST_NPM") == "required" {
			t.Fatalf("%v; run make npm", err)
		}
		t.Skipf("%s is not installed; run make npm to include this test", program)
	}
	return path
}

// A Node client with loaded stubs drives four processes to the end of a task (issue: shown by 3).
func TestNodeClient(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(npm(t, "@grpc/grpc-js")))
	target := rig.FourProcesses(t, binaries, rig.Options{Workspace: workspace(t)})
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "../clients/node/run-task.mjs", target.Executor.Target(), "Which files mention the word ratchet?")
	cmd.Env = append(os.Environ(), "PAWL_NODE_MODULES="+modules)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"1 status_changed", "flow_start", "step_output workspace/search_code", "flow_success", "src/spring.go"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// Servers of others, over stdio, streamable HTTP and the HTTP transport before it: list, call, long-running with progress, cancel (issue: shown by 4).
func TestForeignServers(t *testing.T) {
	bin := npm(t, ".bin")
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "hello.txt"), []byte("a pawl holds the wheel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := everythingOver(t, filepath.Join(bin, "mcp-server-everything"), "streamableHttp", "/mcp")
	old := everythingOver(t, filepath.Join(bin, "mcp-server-everything"), "sse", "/sse")
	target := rig.InProcess(t, rig.Options{Servers: map[string]any{
		"files":           map[string]any{"command": filepath.Join(bin, "mcp-server-filesystem"), "args": []string{files}, "trusted": true},
		"everything":      map[string]any{"command": filepath.Join(bin, "mcp-server-everything"), "args": []string{"stdio"}, "roots": []string{files}},
		"everything-http": map[string]any{"url": url, "roots": []string{files}},
		"everything-sse":  map[string]any{"url": old, "roots": []string{files}}, // that it is one is found out
	}})
	pool := mcppoolv1.NewMcpPoolServiceClient(target.Pool)
	t.Run("filesystem", func(t *testing.T) {
		wantTools(t, pool, "files", "list_directory", "read_text_file", "write_file")
		if got := call(t, pool, "files", "read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(files, "hello.txt"))); !strings.Contains(got, "a pawl holds the wheel") {
			t.Errorf("read_text_file: %s", got)
		}
		_, err := result(t.Context(), pool, &mcppoolv1.CallToolRequest{McpId: "files", Name: "read_text_file", InputJson: `{}`}, nil)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "path") {
			t.Errorf("without a path: %v", err)
		}
		outside, err := result(t.Context(), pool, &mcppoolv1.CallToolRequest{McpId: "files", Name: "read_text_file", InputJson: `{"path":"/etc/hostname"}`}, nil)
		if err != nil || !outside.GetIsError() {
			t.Errorf("outside of its folder: %v, %v; want the tool's own error", outside, err)
		}
	})
	for _, id := range []string{"everything", "everything-http", "everything-sse"} {
		t.Run(id, func(t *testing.T) {
			everything(t, pool, id)
			everythingElse(t, pool, id, files)
		})
	}
}

func everything(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id string) {
	wantTools(t, pool, id, "echo", "get-sum", "trigger-long-running-operation")
	if got := call(t, pool, id, "echo", `{"message":"hello"}`); !strings.Contains(got, "hello") {
		t.Errorf("echo: %s", got)
	}
	if got := call(t, pool, id, "get-sum", `{"a":2,"b":3}`); !strings.Contains(got, "5") {
		t.Errorf("get-sum: %s", got)
	}
	t.Run("progress", func(t *testing.T) {
		seen := 0
		res, err := result(t.Context(), pool, &mcppoolv1.CallToolRequest{McpId: id, Name: "trigger-long-running-operation", InputJson: `{"duration":1,"steps":4}`},
			func(*mcppoolv1.CallProgress) { seen++ })
		if err != nil || res.GetIsError() || seen == 0 {
			t.Errorf("%v, %v, %d times progress", res, err, seen)
		}
	})
	t.Run("cancel", func(t *testing.T) {
		begun := time.Now()
		_, err := result(t.Context(), pool, &mcppoolv1.CallToolRequest{McpId: id, CallId: id + "/long/1", Name: "trigger-long-running-operation", InputJson: `{"duration":30,"steps":60}`},
			func(p *mcppoolv1.CallProgress) {
				if p.GetProgress() == 1 {
					if _, err := pool.CancelCall(t.Context(), &mcppoolv1.CancelCallRequest{CallId: id + "/long/1"}); err != nil {
						t.Error(err)
					}
				}
			})
		if status.Code(err) != codes.Canceled || time.Since(begun) > 20*time.Second {
			t.Errorf("%v after %s, want Canceled at once", err, time.Since(begun))
		}
	})
}

func wantTools(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id string, want ...string) {
	t.Helper()
	res, err := pool.ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: id})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, tool := range res.GetTools() {
		have[tool.GetName()] = true
		if tool.GetId() != id+"/"+tool.GetName() || tool.GetInputSchemaJson() == "" || len(tool.GetDefinitionHash()) != 64 || tool.GetEffect() == 0 {
			t.Errorf("tool %v", tool)
		}
	}
	for _, name := range want {
		if !have[name] {
			t.Errorf("%s does not offer %s: %v", id, name, have)
		}
	}
}

func call(t *testing.T, pool mcppoolv1.McpPoolServiceClient, id, name, input string) string {
	t.Helper()
	res, err := result(t.Context(), pool, &mcppoolv1.CallToolRequest{McpId: id, Name: name, InputJson: input}, nil)
	if err != nil || res.GetIsError() {
		t.Fatalf("%s/%s: %v %v", id, name, res, err)
	}
	return res.String()
}

func result(ctx context.Context, pool mcppoolv1.McpPoolServiceClient, req *mcppoolv1.CallToolRequest, progress func(*mcppoolv1.CallProgress)) (*mcppoolv1.CallResult, error) {
	ctx, cancel := context.WithTimeout(ctx, caseTimeout)
	defer cancel()
	stream, err := pool.CallTool(ctx, req)
	if err != nil {
		return nil, err
	}
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("no result")
		}
		if err != nil {
			return nil, err
		}
		if p := msg.GetProgress(); p != nil && progress != nil {
			progress(p)
		}
		if res := msg.GetResult(); res != nil {
			return res, nil
		}
	}
}

// everythingOver starts server-everything over a transport and returns its address.
func everythingOver(t *testing.T, program, transport, path string) string {
	t.Helper()
	addr := rig.FreeAddr(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	cmd := exec.Command(program, transport)
	cmd.Env = append(os.Environ(), "PORT="+port)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintln(t.Output(), "everything:", lines.Text())
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	awaitPort(ctx, t, "localhost:"+port)
	return "http://localhost:" + port + path
}
