package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/mcpserver"
)

// toolVariable is the environment variable that makes this program the MCP server of the measured tools.
const toolVariable = "PAWL_BENCH_TOOL"

// workTime is how long a call of the tools work and lookup takes.
const workTime = 100 * time.Millisecond

// serveTool serves the tools of package mcpserver, and the tool work under the names work and lookup, for up to 100 calls at once.
func serveTool() error {
	s := mcpserver.New()
	for _, name := range []string{"work", "lookup"} {
		s.AddTool(mcp.NewTool(name, mcp.WithDescription("Takes its time and writes a line to the end of a file."),
			mcp.WithString("path", mcp.Required()), mcp.WithString("line", mcp.Required())), work)
	}
	stdio := server.NewStdioServer(s)
	server.WithWorkerPoolSize(100)(stdio)
	return stdio.Listen(context.Background(), os.Stdin, os.Stdout)
}

// work appends a line to a file and takes workTime.
func work(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	// The line is the side effect. It happens even if the caller disconnects.
	f, err := os.OpenFile(req.GetString("path", ""), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	defer func() { _ = f.Close() }()
	if _, err := fmt.Fprintln(f, req.GetString("line", "")); err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	<-time.After(workTime)
	return mcp.NewToolResultText("worked"), nil
}

// stdioTool configures this program as an MCP server. work counts as writing but needs no approval; lookup counts as reading.
func stdioTool() map[string]any {
	policy := func(effect, risk string) map[string]string { return map[string]string{"effect": effect, "risk": risk} }
	return map[string]any{"command": must(os.Executable()), "env": map[string]string{toolVariable: "1"}, "tools": map[string]any{
		"echo": policy("read", "low"), "append": policy("write", "medium"), "work": policy("write", "low"), "lookup": policy("read", "low"),
	}}
}

// mcpConfig writes an mcpServers file with the server t.
func (b *bench) mcpConfig(server any) string {
	path := filepath.Join(b.folder(), "mcp.json")
	check(os.WriteFile(path, must(json.Marshal(map[string]any{"mcpServers": map[string]any{"t": server}})), 0o600))
	return path
}
