package serve

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a service's main function: the first SIGINT or SIGTERM ends ctx, a second one ends the process at once. An
// error is printed and makes the exit code 1.
func Main(name string, run func(ctx context.Context) error) {
	RelaxGC()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if code := runMain(name, run, signals, os.Stderr, os.Exit); code != 0 {
		os.Exit(code)
	}
}

// runMain is Main with the process's parts handed in. Exit is called from another goroutine, on the second signal.
func runMain(name string, run func(context.Context) error, signals <-chan os.Signal, stderr io.Writer, exit func(int)) int {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	defer close(done)
	defer cancel()
	go func() {
		select {
		case <-signals:
			cancel()
		case <-done:
			return
		}
		select {
		case <-signals:
			_, _ = fmt.Fprintf(stderr, "%s: stopped at once by a second signal\n", name)
			exit(1)
		case <-done:
		}
	}()
	if err := run(ctx); err != nil {
		_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
