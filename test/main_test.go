package test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pawl.dev/test/mcpserver"
	"pawl.dev/test/rig"
)

// binaries are the programs that all tests of this package start.
var binaries rig.Binaries

// TestMain builds the programs; with rig.ServerVariable or modernVariable set, this binary is an MCP server instead.
func TestMain(m *testing.M) {
	if program := os.Getenv(modernVariable); program != "" {
		if err := serveModern(program); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(rig.ServerVariable) != "" {
		if err := mcpserver.ServeStdio(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pawl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binaries, err = rig.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func workspace(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "workspace"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
