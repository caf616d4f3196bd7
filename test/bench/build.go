package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the built binaries.
type programs struct {
	executor, planner, pool, pawl, inProcess string
	version                                  string
}

// findRoot is the folder of the workspace that this program is run in.
func findRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOWORK: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == "off" {
		return "", errors.New("run this within the workspace: go.work was not found")
	}
	return filepath.Dir(file), nil
}

// build builds the services, or takes those that were built.
func (b *bench) build(ctx context.Context) error {
	dir := b.bin
	if dir == "" {
		dir = filepath.Join(b.work, "bin")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		b.logf("building")
		if _, err := b.command(ctx, b.root, "go", "build", "-o", dir+"/", "./cmd/pawl", "./executor-svc", "./mcppool-svc", "./planner-svc", "./test/bench/inprocess"); err != nil {
			return err
		}
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	b.programs = programs{executor: in("executor-svc"), planner: in("planner-svc"), pool: in("mcppool-svc"), pawl: in("pawl"), inProcess: in("inprocess")}
	version, err := b.command(ctx, b.root, b.programs.executor, "--version")
	if err != nil {
		return err
	}
	b.programs.version = strings.TrimSpace(strings.TrimPrefix(version, "executor-svc"))
	return nil
}

// command runs a program to its end and returns what it wrote.
func (b *bench) command(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, tail(string(out)))
	}
	return string(out), nil
}

// tail is the end of a long output.
func tail(s string) string {
	const most = 2000
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strings.TrimSpace(s)
}

// limits lifts the bounds of a program that its --help knows: what is measured is the machine.
func (b *bench) limits(ctx context.Context, program string, command ...string) ([]string, error) {
	help, err := b.command(ctx, b.root, program, append(command, "--help")...)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, l := range []struct{ flag, value string }{{"--max-running", "256"}, {"--max-requests", "0"}, {"--max-steps", "1000"}} {
		if strings.Contains(help, l.flag+"=") {
			args = append(args, l.flag, l.value)
		}
	}
	return args, nil
}
