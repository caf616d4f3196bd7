// Command inprocess is Pawl in one process, with a Go function as tool, which returns its argument. It shows how a program
// embeds Pawl. Command bench uses it to measure tasks whose tool costs next to nothing. It serves gRPC on loopback.
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

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
	Tools           int    `name:"tools" default:"1" help:"How many tools there are."`
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
		Builtins: builtins(s.Tools),
	}, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	return pawl.Run(ctx)
}

// builtins returns the tools of this process: echo, blob and sleep, and others up to a number.
func builtins(number int) map[string]mcppool.Builtin {
	tools := []mcppool.Func{
		{
			Name: "echo", Description: "Returns the text.", ReadOnly: true, Call: echo,
			Input: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","description":"The text to return."}},"required":["text"]}`),
		},
		{
			Name: "blob", Description: "Returns random letters.", ReadOnly: true, Call: blob,
			Input: json.RawMessage(`{"type":"object","properties":{"bytes":{"type":"integer"},"seed":{"type":"integer"}},"required":["bytes","seed"]}`),
		},
		{
			Name: "sleep", Description: "Waits.", ReadOnly: true, Call: sleep,
			Input: json.RawMessage(`{"type":"object","properties":{"seconds":{"type":"integer"}},"required":["seconds"]}`),
		},
	}
	things := []string{"invoice", "customer", "ticket", "branch", "server", "meeting", "contract", "parcel", "payment", "photo"}
	for i := len(tools); i < number; i++ {
		thing := things[i%len(things)]
		tools = append(tools, mcppool.Func{
			Name: fmt.Sprintf("find_%s_%d", thing, i), Description: fmt.Sprintf("Finds each %s of group %d that matches a query.", thing, i), ReadOnly: true, Call: echo,
			Input: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string","description":"Words that the result contains."},"limit":{"type":"integer"}},"required":["query"]}`),
		})
	}
	return map[string]mcppool.Builtin{name: {Tools: tools}}
}

func echo(_ context.Context, arguments json.RawMessage) (mcppool.Result, error) {
	var in struct{ Text string }
	err := json.Unmarshal(arguments, &in)
	return mcppool.Result{Text: in.Text}, err
}

// blob returns letters that no compression makes much smaller.
func blob(_ context.Context, arguments json.RawMessage) (mcppool.Result, error) {
	var in struct {
		Bytes int
		Seed  uint64
	}
	err := json.Unmarshal(arguments, &in)
	raw, seed := make([]byte, in.Bytes/2), [32]byte{}
	binary.LittleEndian.PutUint64(seed[:], in.Seed)
	_, _ = rand.NewChaCha8(seed).Read(raw) // never fails
	return mcppool.Result{Text: hex.EncodeToString(raw)}, err
}

func sleep(ctx context.Context, arguments json.RawMessage) (mcppool.Result, error) {
	var in struct{ Seconds int }
	if err := json.Unmarshal(arguments, &in); err != nil {
		return mcppool.Result{}, err
	}
	select {
	case <-time.After(time.Duration(in.Seconds) * time.Second):
	case <-ctx.Done():
	}
	return mcppool.Result{Text: "awake"}, ctx.Err()
}
