package main

import (
	"context"
	"net"
	"strings"
	"testing"
)

func ours() settings {
	return settings{HTTP: "127.0.0.1:0", Executor: "127.0.0.1:1", Pool: "127.0.0.1:1", Planner: "127.0.0.1:1"}
}

// TestRunStops: a stop that was asked for is no error, whatever is not there.
func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, ours()); err != nil {
		t.Error(err)
	}
}

// TestRunSaysWhatIsWrong, and what to do (issue 2, shown by 7).
func TestRunSaysWhatIsWrong(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	tests := map[string]struct {
		change func(*settings)
		want   string
	}{
		"open to the network without keys": {func(s *settings) { s.HTTP = "0.0.0.0:0" }, "refusing to listen"},
		"an address in use":                {func(s *settings) { s.HTTP = taken.Addr().String() }, "in use"},
		"no address":                       {func(s *settings) { s.HTTP = "7410" }, "host:port"},
		"an origin that is none":           {func(s *settings) { s.AllowOrigin = []string{"*"} }, "--allow-origin"},
		"a service without an address":     {func(s *settings) { s.Pool = "\x00" }, "host:port"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := ours()
			tt.change(&s)
			if err := run(t.Context(), s); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestRunWithKeys may listen everywhere.
func TestRunWithKeys(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := ours()
	s.HTTP, s.Authenticated = ":0", true
	if err := run(ctx, s); err != nil {
		t.Error(err)
	}
}
