// Command inprocess is Pawl in one process with an MCP server of its own in that process: one tool that gives its argument
// back. It shows how a program embeds the suite, and package bench measures with it what a task costs where the tool costs
// next to nothing. It serves gRPC on loopback, to everyone on the machine.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
	"pawl.dev/services/telemetry"
)

// name is the program's, and the MCP server's id.
const name = "inprocess"

// settings are the flags.
type settings struct {
	GRPC            string `name:"grpc" required:"" placeholder:"ADDR" help:"Where to serve gRPC."`
	executor.Config `embed:""`
}

func main() {
	var s settings
	err := conf.Parse(name, "Pawl in one process, with a tool in that process.", &s, os.Args[1:])
	serve.Main(name, func(ctx context.Context) error {
		if err != nil {
			return err
		}
		return run(ctx, s)
	})
}

// run serves as `pawl up` does, until ctx is done.
func run(ctx context.Context, s settings) (err error) {
	shutdown, err := telemetry.Setup(ctx, name, conf.Version())
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, shutdown(ctx))
	}()
	pawl, err := suite.New(ctx, suite.Config{
		DataDir: s.DataDir, GRPCAddr: s.GRPC, Executor: s.Config, Version: conf.Version(),
		Builtins: map[string]mcppool.Builtin{name: open},
	}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	return pawl.Run(ctx)
}

// open makes the MCP server for a connection.
func open() (*server.MCPServer, io.Closer, error) {
	s := server.NewMCPServer(name, "1.0.0", server.WithToolCapabilities(false))
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("Gives the text back."), mcp.WithReadOnlyHintAnnotation(true),
		mcp.WithString("text", mcp.Required(), mcp.Description("What to give back."))), echo)
	return s, nil, nil
}

func echo(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(req.GetString("text", "")), nil
}
