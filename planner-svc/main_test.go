package main

import (
	"context"
	"strings"
	"testing"

	"pawl.dev/services/serve"

	"pawl.dev/planner-svc/planner"
)

func TestRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := settings{GRPC: "127.0.0.1:0", Flags: serve.Flags{LogLevel: "error"}}
	if err := serve.Run(ctx, s.options(), s.build); err != nil {
		t.Errorf("a stop that was asked for: %v", err)
	}
	for name, tc := range map[string]struct {
		settings settings
		says     string
	}{
		"everyone's address without keys": {settings{GRPC: "0.0.0.0:0"}, "without API keys"},
		"an unknown model":                {settings{GRPC: "127.0.0.1:0", Config: planner.Config{DefaultModel: "none"}}, `"none"`},
		"no address":                      {settings{GRPC: "nowhere"}, "host:port"},
	} {
		if err := serve.Run(ctx, tc.settings.options(), tc.settings.build); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
