package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// profileVariable names the file that a program built for profiling writes its CPU profile to.
const profileVariable = "PAWL_BENCH_PROFILE"

// profiler is added to each program's main package when it is built for profiling, and to no other build: the programs
// themselves have no way to be profiled from outside.
//
//go:embed testdata/profiler.go.txt
var profiler []byte

// overlay writes what `go build -overlay` needs to add the profiler.
func (b *bench) overlay() (string, error) {
	source := filepath.Join(b.work, "profiler.go")
	if err := os.WriteFile(source, profiler, 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, folder := range []string{"cmd/pawl", "executor-svc", "mcppool-svc", "planner-svc", "test/bench/inprocess"} {
		replace[filepath.Join(b.root, folder, "bench_profiler.go")] = source
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(b.work, "overlay.json")
	return path, os.WriteFile(path, raw, 0o600)
}

func (b *bench) profileEnv(name string) []string {
	if b.profile == "" {
		return nil
	}
	return []string{profileVariable + "=" + filepath.Join(b.work, name+".prof")}
}

// profiles records where each process computes at 32 tasks, and prints the top of each.
func (b *bench) profiles(ctx context.Context) (err error) {
	if b.profile, err = filepath.Abs(b.profile); err != nil {
		return err
	}
	if err := os.MkdirAll(b.profile, 0o700); err != nil {
		return err
	}
	four, err := b.startFour(ctx)
	if err != nil {
		return err
	}
	err = b.record(ctx, four.contender(fourProcesses, echo()))
	if err := errors.Join(err, four.stop()); err != nil {
		return err
	}
	inside, err := b.startInProcess(ctx)
	if err != nil {
		return err
	}
	err = b.record(ctx, inside.contender(inProcess, echoInProcess()))
	return errors.Join(err, inside.stop())
}

// record profiles a system under load.
func (b *bench) record(ctx context.Context, c *contender) error {
	b.logf("profiling %s", c.name)
	w := c.work(ctx, 32)
	err := w.wait(warmUp)
	for _, p := range c.processes {
		err = errors.Join(err, p.cmd.Process.Signal(syscall.SIGUSR1))
	}
	if err == nil {
		err = w.wait(max(b.each, 5*time.Second))
	}
	for _, p := range c.processes {
		err = errors.Join(err, p.cmd.Process.Signal(syscall.SIGUSR2))
	}
	_, failed := w.end()
	if err := firstError(failed, err); err != nil {
		return err
	}
	for _, p := range c.processes {
		if err := b.top(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// wrappers are frames that every call passes through, and that compute nothing themselves.
const wrappers = `^(google\.golang\.org/grpc\.(getChain|NewServer\.chain|\(\*Server\)\.(handleStream|processRPC|serveStreams|register|serverWorker))|` +
	`pawl\.dev/services/(serve|inproc)\.|sync\.\(\*WaitGroup\)|pawl\.dev/proto/gen/.*_Handler|syscall\.)`

// top keeps a process's profile and prints its largest parts.
func (b *bench) top(ctx context.Context, p *process) error {
	source, kept := filepath.Join(b.work, p.name+".prof"), filepath.Join(b.profile, p.name+".prof")
	// The process writes the profile under another name and renames it when it is whole.
	if err := p.await(ctx, func(context.Context) bool { _, err := os.Stat(source); return err == nil }); err != nil {
		return err
	}
	raw, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(kept, raw, 0o600); err != nil { //nolint:gosec // a folder that who runs this names
		return err
	}
	out, err := b.command(ctx, b.work, "go", "tool", "pprof", "-top", "-cum", "-nodecount=25", "-hide="+wrappers, kept)
	if err != nil {
		return err
	}
	flat, err := b.command(ctx, b.work, "go", "tool", "pprof", "-top", "-nodecount=15", kept)
	fmt.Printf("## %s\n\n%s\n%s\n", p.name, out, flat)
	return err
}
