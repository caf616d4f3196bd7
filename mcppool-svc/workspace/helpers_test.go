package workspace

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tree writes files (path to content; a path that ends in "/" is a folder) and
// returns the folder that holds them.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return root
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, target, link string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(link), 0o755))
	if err := os.Symlink(target, link); err != nil {
		t.Skipf("symbolic links are not available: %v", err)
	}
}

func newServer(t testing.TB, root string, o ...Options) *Server {
	t.Helper()
	s, err := NewServer(root, append(o, Options{})[0])
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// writable returns a server whose tools may change files.
func writable(t testing.TB, root string) *Server {
	t.Helper()
	return newServer(t, root, Options{Write: true})
}

// fileText returns the file at a path of a workspace, or "-" if there is none.
func fileText(t testing.TB, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	must(t, err)
	return string(data)
}

// sum returns the SHA-256 of a text.
func sum(text string) string { return sumOf([]byte(text)) }

// inProcess connects a client by direct calls.
func inProcess(t testing.TB, s *Server) *client.Client {
	t.Helper()
	c, err := client.NewInProcessClient(s.MCP())
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	initialize(t, c)
	return c
}

// overStdio connects a client by pipes.
func overStdio(t testing.TB, s *Server) *client.Client {
	t.Helper()
	clientIn, serverOut := io.Pipe()
	serverIn, clientOut := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := s.ServeStdio(context.Background(), serverIn, serverOut)
		_ = serverOut.Close()
		served <- err
	}()
	c := client.NewClient(transport.NewIO(clientIn, clientOut, io.NopCloser(strings.NewReader(""))))
	t.Cleanup(func() {
		_ = c.Close()
		if err := <-served; err != nil {
			t.Errorf("ServeStdio: %v", err)
		}
	})
	initialize(t, c)
	return c
}

func initialize(t testing.TB, c *client.Client) {
	t.Helper()
	must(t, c.Start(context.Background()))
	_, err := c.Initialize(context.Background(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: "2025-11-25",
		ClientInfo:      mcp.Implementation{Name: "test", Version: "1"},
	}})
	must(t, err)
}

// onEachTransport runs a test over both ways to reach the server.
func onEachTransport(t *testing.T, s *Server, test func(*testing.T, *client.Client)) {
	t.Run("in process", func(t *testing.T) { test(t, inProcess(t, s)) })
	t.Run("stdio", func(t *testing.T) { test(t, overStdio(t, s)) })
}

type args = map[string]any

// call calls a tool that must succeed, checks its structured content against
// the output schema, and decodes it.
func call[Out any](t testing.TB, c *client.Client, tool string, a args) Out {
	t.Helper()
	out, _ := callText[Out](t, c, tool, a)
	return out
}

func callText[Out any](t testing.TB, c *client.Client, tool string, a args) (out Out, text string) {
	t.Helper()
	result, err := c.CallTool(context.Background(), request(tool, a))
	must(t, err)
	if result.IsError {
		t.Fatalf("%s(%v) failed: %s", tool, a, textOf(t, result))
	}
	raw, err := json.Marshal(result.StructuredContent)
	must(t, err)
	checkOutput(t, tool, raw)
	must(t, json.Unmarshal(raw, &out))
	return out, textOf(t, result)
}

// callError calls a tool that must answer with an error, and returns its text.
func callError(t testing.TB, c *client.Client, tool string, a args) string {
	t.Helper()
	result, err := c.CallTool(context.Background(), request(tool, a))
	must(t, err)
	if !result.IsError {
		t.Fatalf("%s(%v) succeeded: %s", tool, a, textOf(t, result))
	}
	return textOf(t, result)
}

func request(tool string, a args) mcp.CallToolRequest {
	return mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: a}}
}

func textOf(t testing.TB, r *mcp.CallToolResult) string {
	t.Helper()
	if len(r.Content) != 1 {
		t.Fatalf("%d contents, want one text", len(r.Content))
	}
	text, ok := r.Content[0].(mcp.TextContent)
	if !ok {
		t.Fatalf("content is %T, want text", r.Content[0])
	}
	return text.Text
}

// checkOutput validates structured content by the tool's own output schema.
func checkOutput(t testing.TB, tool string, content []byte) {
	t.Helper()
	all, err := definitions()
	must(t, err)
	for _, d := range all {
		if d.Name != tool {
			continue
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		must(t, err)
		if err := compileSchema(t, d.RawOutputSchema).Validate(value); err != nil {
			t.Errorf("%s: the result does not fit the output schema: %v", tool, err)
		}
		return
	}
	t.Fatalf("there is no tool %q", tool)
}

func compileSchema(t testing.TB, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, err)
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	must(t, compiler.AddResource("mem:///schema.json", doc))
	schema, err := compiler.Compile("mem:///schema.json")
	must(t, err)
	return schema
}

// wantContains fails unless a text contains all parts.
func wantContains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}
