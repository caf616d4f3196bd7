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

// process is a program that the benchmark started. Its output goes to the file log.
type process struct {
	name string
	pid  int
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs a program, with additional environment variables, until the measurement ends.
func (b *bench) start(name string, env []string, program string, args ...string) *process {
	b.started++
	p := &process{name: name, log: filepath.Join(b.work, fmt.Sprintf("%03d-%s.log", b.started, name)), done: make(chan struct{})}
	out := must(os.Create(p.log))
	defer func() { _ = out.Close() }()
	// stop ends the process, not a context.
	p.cmd = exec.CommandContext(context.Background(), program, args...)
	p.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+b.work), env...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = b.work, out, out
	// An interrupt at the terminal must reach only this program, which then stops the process.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(p.cmd.Start())
	p.pid = p.cmd.Process.Pid
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState has the outcome
	}()
	b.atEnd(p.stop)
	return p
}

// serve starts a program on a network and waits until it serves gRPC.
func (b *bench) serve(ctx context.Context, name, addr string, n network, program string, args ...string) *process {
	return b.serveWith(ctx, name, addr, n.env(), n.client(), program, args...)
}

// serveWith is serve with environment variables, and the certificates of the health check.
func (b *bench) serveWith(ctx context.Context, name, addr string, env []string, certs *serve.Certificates, program string, args ...string) *process {
	p := b.start(name, env, program, append(args, "--grpc", addr)...)
	p.await(ctx, func(ctx context.Context) bool { return serving(ctx, addr, certs) })
	return p
}

// stop asks the process to end and waits for it. A process that does not end within stopTimeout is killed, which is an error.
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

// await calls ok every millisecond until it returns true. It fails if the process ends or takes longer than startTimeout.
func (p *process) await(ctx context.Context, ok func(context.Context) bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("it did not serve within %v", startTimeout))
	defer cancel()
	for !ok(ctx) {
		why := errors.New("it has ended")
		select {
		case <-time.After(time.Millisecond):
			continue
		case <-p.done:
		case <-ctx.Done():
			why = context.Cause(ctx)
		}
		check(fmt.Errorf("starting %s: %w; its output:\n%s", p.name, why, tail(string(must(os.ReadFile(p.log))))))
	}
}

// serving reports whether the health check at a gRPC address answers SERVING.
func serving(ctx context.Context, addr string, certs *serve.Certificates) bool {
	// Check the port first, because gRPC would wait 50 ms after a refusal.
	if !listening(ctx, addr) {
		return false
	}
	conn, err := certs.Dial(addr, "")
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	return err == nil && res.GetStatus() == healthpb.HealthCheckResponse_SERVING && conn.GetState() == connectivity.Ready
}

// listening reports whether a port accepts connections.
func listening(ctx context.Context, addr string) bool {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// freeAddrs returns n loopback addresses that nothing listens on.
func freeAddrs(ctx context.Context, n int) []string {
	var addrs []string
	for range n {
		lis := must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
		addrs = append(addrs, lis.Addr().String())
		check(lis.Close())
	}
	return addrs
}

// folder creates a data folder and returns its path.
func (b *bench) folder() string { return must(os.MkdirTemp(b.work, "data-")) }
