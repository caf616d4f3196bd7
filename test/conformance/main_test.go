package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"pawl.dev/test/conformance/shim"
)

// clientTimeout bounds the turn of a client.
const clientTimeout = 30 * time.Second

// TestMain makes this binary the client under test if the suite starts it.
func TestMain(m *testing.M) {
	if os.Getenv(shim.NameVariable) == "" {
		os.Exit(m.Run())
	}
	if err := client(); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func client() error {
	s, err := shim.Read(os.Args, os.Getenv)
	if err != nil {
		return err
	}
	if addr := os.Getenv(gateVariable); addr != "" {
		turn, err := enter(addr, clocked[s.Name])
		if err != nil {
			return fmt.Errorf("waiting for the turn: %w", err)
		}
		defer func() { _ = turn.Close() }()
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	return shim.Run(ctx, s, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})))
}
