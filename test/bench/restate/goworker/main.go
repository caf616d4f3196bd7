// Command goworker is the worker of Restate's Go SDK: ten durable steps, each of which returns the text. It is a module of
// its own, so that Pawl does not depend on Restate.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

const steps = 10

// BenchGo is the service; the ingress knows it by this name.
type BenchGo struct{}

// Run is the handler of the service.
func (BenchGo) Run(ctx restate.Context, text string) (string, error) {
	for i := range steps {
		output, err := restate.Run(ctx, func(restate.RunContext) (string, error) { return text, nil }, restate.WithName(fmt.Sprintf("echo-%d", i)))
		if err != nil {
			return "", err
		}
		text = output
	}
	return text, nil
}

func main() {
	quiet := slog.NewTextHandler(io.Discard, nil)
	worker := server.NewRestate().WithLogger(quiet, true).Bind(restate.Reflect(BenchGo{}))
	if err := worker.Start(context.Background(), "127.0.0.1:"+os.Getenv("PORT")); err != nil {
		fmt.Fprintln(os.Stderr, "goworker:", err)
		os.Exit(1)
	}
}
