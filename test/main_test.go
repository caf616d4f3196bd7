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
	os.Exit(rig.Run(m, &binaries, func(dir string) error { return commands(filepath.Join(dir, "commands")) }))
}

// commands makes the programs that tasks run in repositories, and adds their folder to PATH. note writes a line to effects.log, and ends when there is no hold.log. hold says that
// it runs, and the program whose name is its second argument too; it ends when there is a file named go.
func commands(dir string) error {
	for name, script := range map[string]string{
		"note": "echo \"$1\" >> effects.log; while [ -e hold.log ]; do sleep 0.02; done\n",
		"hold": "touch \"$1.log\"; while [ ! -e \"$2.log\" ]; do sleep 0.02; done; echo both run; while [ ! -e go ]; do sleep 0.02; done\n",
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			return err
		}
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func workspace(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "workspace"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
