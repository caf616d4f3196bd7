// Command inprocess is Pawl in one process, with a Go function as tool, which returns its argument. It shows how a program
// embeds Pawl. Command bench uses it to measure tasks whose tool costs next to nothing. It serves gRPC on loopback.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"

	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/mcppool-svc/mcppool"
	"pawl.dev/services/conf"
	"pawl.dev/services/serve"
)

// name is the name of the program, and the id of the MCP server with its tool.
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
func run(ctx context.Context, s settings) error {
	pawl, err := suite.New(ctx, suite.Config{
		DataDir: s.DataDir, GRPCAddr: s.GRPC, Executor: s.Config, Version: conf.Version(),
		Builtins: builtins(),
	}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	return pawl.Run(ctx)
}

// builtins returns the tool of this process.
func builtins() map[string]mcppool.Builtin {
	return map[string]mcppool.Builtin{name: {Tools: []mcppool.Func{{
		Name: "echo", Description: "Returns the text.", ReadOnly: true, Call: echo,
		Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"The text to return."}},"required":["text"]}`),
	}}}}
}

func echo(_ context.Context, arguments json.RawMessage) (mcppool.Result, error) {
	var in struct{ Text string }
	err := json.Unmarshal(arguments, &in)
	return mcppool.Result{Text: in.Text}, err
}
