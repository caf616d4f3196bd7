package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/mcpserver"
)

// Variables that make this test binary the MCP server of the tests.
const (
	serverVariable = "PAWL_SCALE_SERVER" // its name
	startsVariable = "PAWL_SCALE_STARTS" // the file in which it records that it was started, and by which pool
	textVariable   = "PAWL_SCALE_TEXT"   // a file with the description of its tool say; if it is not set, there is no such tool
)

// begun is one start of an MCP server: one connection.
type begun struct {
	Server string
	Pool   int // its process
}

// serveTool serves read and write, which write a line per call, hold_read and hold_write, which then wait for a file, and say, if
// textVariable is set.
func serveTool(name string) error {
	line, err := json.Marshal(begun{Server: name, Pool: os.Getppid()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(os.Getenv(startsVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, string(line))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	s := server.NewMCPServer("scale", "1.0.0", server.WithToolCapabilities(true))
	mcpserver.AddRecorders(s, "read", "write")
	mcpserver.AddHolders(s, "hold_read", "hold_write")
	if path := os.Getenv(textVariable); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s.AddTool(mcp.NewTool("say", mcp.WithDescription(string(text))), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText(string(text)), nil
		})
	}
	return server.ServeStdio(s)
}

// started reads which servers were started.
func started(t *testing.T, path string) []begun {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []begun
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var b begun
		if line == "" {
			continue
		}
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// lines reads the lines that a tool wrote.
func lines(path string) (all []mcpserver.Line, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for _, text := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		var l mcpserver.Line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// eventually waits until a condition holds; it polls, because other processes send no notice.
func eventually(ctx context.Context, what string, is func() bool) error {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !is() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// mcpConfig configures servers of these names.
func mcpConfig(t *testing.T, dir string, names ...string) (config, starts string) {
	t.Helper()
	starts = filepath.Join(dir, "starts")
	tools := map[string]any{}
	for name, effect := range map[string]string{"read": "read", "hold_read": "read", "write": "write", "hold_write": "write"} {
		tools[name] = map[string]any{"effect": effect, "risk": "low"}
	}
	servers := map[string]any{}
	for _, name := range names {
		servers[name] = map[string]any{"command": os.Args[0], "env": map[string]string{serverVariable: name, startsVariable: starts}, "tools": tools}
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "mcp.json")
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return config, starts
}
