package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc/connectivity"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/services/serve"
)

// startTimeout bounds how long a process may take until it serves, and stopTimeout until it has stopped.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
)

// process is a program that this one started; what it says goes to a file.
type process struct {
	name string
	pid  int
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// start starts a program with further environment variables.
func (b *bench) start(name string, env []string, program string, args ...string) (*process, error) {
	b.folders++
	log := filepath.Join(b.work, fmt.Sprintf("%03d-%s.log", b.folders, name))
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	// Not tied to a context: a stop is asked for by a signal, and waited for.
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+b.work), env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.work, out, out
	// An interrupt at the terminal is for this program, which then stops the others.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{name: name, pid: cmd.Process.Pid, log: log, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is asked of ProcessState
	}()
	return p, nil
}

// stop asks the process to end and waits for it.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("%s did not stop on SIGTERM", p.name)
	}
}

// kill ends the process at once, as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// said is the end of what the process wrote.
func (p *process) said() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(string(raw))
}

// await tries every millisecond until ok, the process has ended, or it has taken too long.
func (p *process) await(ctx context.Context, ok func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if ok(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s has ended; it said:\n%s", p.name, p.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not serve: %w; it said:\n%s", p.name, ctx.Err(), p.said())
		}
	}
}

// serving says whether something answers at a gRPC address that it serves.
func serving(ctx context.Context, addr string) bool {
	// A look at the port first: gRPC would wait 50 ms after a refusal.
	probe, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = probe.Close()
	conn, err := serve.Dial(addr, "")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err == nil && res.GetStatus() == healthpb.HealthCheckResponse_SERVING && conn.GetState() == connectivity.Ready
}

// freeAddr returns a loopback address that nothing listens on.
func freeAddr(ctx context.Context) (string, error) {
	lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return lis.Addr().String(), lis.Close()
}

// freeAddrs returns n of them.
func freeAddrs(ctx context.Context, n int) ([]string, error) {
	var addrs []string
	var errs error
	for range n {
		addr, err := freeAddr(ctx)
		addrs, errs = append(addrs, addr), errors.Join(errs, err)
	}
	return addrs, errs
}
