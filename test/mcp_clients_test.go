package test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pawl.dev/test/rig"
)

// bridgeCommand returns the command line of pawl mcp serve for a target.
func bridgeCommand(target *rig.Target, more ...string) []string {
	return append([]string{binaries.Pawl, "mcp", "serve", "--server", target.Executor.Target()}, more...)
}

// wantLine fails unless a file has one line.
func wantLine(t *testing.T, path, want string) {
	t.Helper()
	if content, err := os.ReadFile(path); err != nil || string(content) != want+"\n" {
		t.Errorf("%s has %q, %v; want the line %q", path, content, err, want)
	}
}

// endpoints are the ways to reach /mcp of a target: over HTTP, and with pawl mcp serve.
func endpoints(target *rig.Target) map[string][]string {
	return map[string][]string{"http": {target.HTTP + "/mcp"}, "stdio": bridgeCommand(target)}
}

// The official client for TypeScript lists, calls, is asked and cancels, with a handshake and without, over HTTP and stdio.
func TestMCPClientNode(t *testing.T) {
	modules := filepath.Dir(filepath.Dir(filepath.Dir(rig.NPM(t, ".", "@modelcontextprotocol/client"))))
	target := rig.Binary(t, binaries, rig.Options{})
	for revision, named := range map[string]string{"legacy": "2025-11-25", "2026-07-28": "2026-07-28"} {
		for kind, endpoint := range endpoints(target) {
			t.Run(revision+" "+kind, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
				defer cancel()
				file, cancelled := filepath.Join(t.TempDir(), "effects"), filepath.Join(t.TempDir(), "cancelled")
				cmd := exec.CommandContext(ctx, "node", append([]string{"testdata/mcp-client.mjs", revision, file, cancelled}, endpoint...)...)
				cmd.Env = append(os.Environ(), "PAWL_NODE_MODULES="+modules)
				cmd.Stderr = t.Output()
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				var got map[string]any
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("%s: %v", out, err)
				}
				want := map[string]any{
					"revision": named, "tools": []any{"run_task", "t__echo"}, "echo": "hello", "approved": "written", "declined": true, "asked": []any{true, true},
					"task": true, "slow": "cancelled",
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				wantLine(t, file, "one")
				awaitFile(ctx, t, cancelled)
			})
		}
	}
}

// The MCP Inspector's command line lists and calls, and a call that needs an approval waits as a task.
func TestMCPInspector(t *testing.T) {
	inspector := rig.NPM(t, ".", "@modelcontextprotocol/inspector-cli/build/index.js")
	target := rig.Binary(t, binaries, rig.Options{})
	for kind, endpoint := range endpoints(target) {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			inspect := func(args ...string) (out struct {
				Tools   []struct{ Name string }
				Content []struct{ Text string }
				IsError bool
			}) {
				t.Helper()
				all := append([]string{inspector}, endpoint...)
				if kind == "http" {
					all = append(all, "--transport", "http")
				}
				cmd := exec.CommandContext(ctx, "node", append(all, args...)...)
				cmd.Dir = filepath.Dir(inspector) // it looks for its package.json from there
				cmd.Stderr = t.Output()
				text, err := cmd.Output()
				if err == nil {
					err = json.Unmarshal(text, &out)
				}
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, text)
				}
				return out
			}
			if !slices.Contains(inspect("--method", "tools/list").Tools, struct{ Name string }{"t__echo"}) {
				t.Error("t__echo is not in the list")
			}
			if got := inspect("--method", "tools/call", "--tool-name", "t__echo", "--tool-arg", "text=hello"); got.IsError || got.Content[0].Text != "hello" {
				t.Errorf("echo: %+v", got)
			}
			file := filepath.Join(t.TempDir(), "effects")
			got := inspect("--method", "tools/call", "--tool-name", "t__append", "--tool-arg", "path="+file, "--tool-arg", "line=one")
			if !got.IsError || !strings.Contains(got.Content[0].Text, "pawl approve ") {
				t.Errorf("append: %+v", got)
			}
		})
	}
}

// The official client for Go lists, calls, is asked and cancels, over HTTP and stdio.
func TestMCPClientGoSDK(t *testing.T) {
	target := rig.Binary(t, binaries, rig.Options{})
	for kind, endpoint := range endpoints(target) {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
			defer cancel()
			var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: endpoint[0]}
			if kind == "stdio" {
				transport = &mcp.CommandTransport{Command: exec.Command(endpoint[0], endpoint[1:]...)}
			}
			useGoSDK(ctx, t, transport)
		})
	}
}

func useGoSDK(ctx context.Context, t *testing.T, transport mcp.Transport) {
	progress, asked := make(chan struct{}, 10_000), []string{}
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked = append(asked, req.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress <- struct{}{} },
	})
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	}()
	list, err := session.ListTools(ctx, nil)
	if err != nil || !slices.ContainsFunc(list.Tools, func(tool *mcp.Tool) bool { return tool.Name == "t__echo" }) {
		t.Fatalf("tools: %+v, %v", list, err)
	}
	call := func(name string, arguments map[string]any) string {
		t.Helper()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil || result.IsError || len(result.Content) == 0 {
			t.Fatalf("%s: %+v, %v", name, result, err)
		}
		text, _ := result.Content[0].(*mcp.TextContent)
		return text.Text
	}
	if got := call("t__echo", map[string]any{"text": "hello"}); got != "hello" {
		t.Errorf("echo: %q", got)
	}
	file, cancelled := filepath.Join(t.TempDir(), "effects"), filepath.Join(t.TempDir(), "cancelled")
	call("t__append", map[string]any{"path": file, "line": "one"})
	wantLine(t, file, "one")
	if len(asked) != 1 || !strings.Contains(asked[0], "t/append") {
		t.Errorf("asked %q, want the approval of t/append", asked)
	}
	calling, stop := context.WithCancel(ctx)
	go func() {
		<-progress
		stop()
	}()
	params := &mcp.CallToolParams{Name: "t__slow", Arguments: map[string]any{"steps": 5000, "path": cancelled}}
	params.SetProgressToken("p")
	if _, err := session.CallTool(calling, params); calling.Err() == nil {
		t.Errorf("the call was not cancelled: %v", err)
	}
	awaitFile(ctx, t, cancelled)
}
