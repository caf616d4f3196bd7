package serve

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a service's main function: the first SIGINT or SIGTERM ends ctx, a second one ends the process at once. An
// error is printed and makes the exit code 1.
func Main(name string, run func(ctx context.Context) error) {
	TuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // which leaves the second signal to the system
	if err := run(ctx); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
