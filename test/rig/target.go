package rig

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"pawl.dev/cmd/suite"
	"pawl.dev/executor-svc/executor"
	"pawl.dev/services/serve"
)

// ServerVariable is the environment variable that makes a test binary the MCP server of package mcpserver.
const ServerVariable = "PAWL_TEST_MCP_SERVER"

// startTimeout bounds how long a process may take until it serves.
const startTimeout = 30 * time.Second

// Options configure a target.
type Options struct {
	// Workspace is the folder of the built-in server `workspace`.
	Workspace string
	// Servers are further entries of the mcpServers file, besides `t`, the server of package mcpserver.
	Servers map[string]any
	// Models is a file of language models; Binary ignores it.
	Models string
	// MaxRunning is how many tasks may run at once; 0 means the default.
	MaxRunning int
	// MaxRequests is how many requests are accepted from one user within RequestWindow; 0 means no limit.
	MaxRequests int
	// RequestWindow is the time of MaxRequests; 0 means the default.
	RequestWindow time.Duration
	// Keys is a file of API keys.
	Keys string
	// Issuers is a file of token issuers, for separate processes that also have Keys.
	Issuers string
	// Key is a user's API key or token, for the gRPC connections of Target.
	Key string
	// ServiceKey is an API key of role service, for separate processes.
	ServiceKey string
	// Certs is a folder of `pawl certs dev`: FourProcesses use mutual TLS, Binary uses TLS, and Target has the client's certificate.
	Certs string
	// MaxConnectionAge is how long connections to the pool last, in separate processes; 0 means the default.
	MaxConnectionAge time.Duration
	// WebhookAddresses are ranges of private addresses to which webhooks may lead.
	WebhookAddresses []string
	// Flags are further flags of Binary's program.
	Flags []string
}

// tls returns the flags with which a process has its certificate, and requires those of its callers.
func (o Options) tls(name string, callers ...string) []string {
	if o.Certs == "" {
		return nil
	}
	files := Certificate(o.Certs, name)
	flags := []string{"--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA}
	for _, caller := range callers {
		flags = append(flags, "--tls-client-name", caller)
	}
	return flags
}

// Certificate names the files of a process in a folder of `pawl certs dev`; nothing if dir is empty.
func Certificate(dir, name string) serve.TLS {
	if dir == "" {
		return serve.TLS{}
	}
	return serve.TLS{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"), CA: filepath.Join(dir, "ca.pem")}
}

func (o Options) limits() []string {
	flags := []string{"--max-requests", strconv.Itoa(o.MaxRequests), "--max-posts", "0"}
	for _, r := range o.WebhookAddresses {
		flags = append(flags, "--allow-webhook-addresses", r)
	}
	if o.RequestWindow > 0 {
		flags = append(flags, "--request-window", o.RequestWindow.String())
	}
	if o.MaxRunning > 0 {
		flags = append(flags, "--max-running", strconv.Itoa(o.MaxRunning))
	}
	return flags
}

// Target is a running Pawl.
type Target struct {
	// HTTP is the gateway's base address, and Web a client that trusts its certificate.
	HTTP string
	Web  *http.Client
	// Executor, Pool and Planner are gRPC connections.
	Executor, Pool, Planner *grpc.ClientConn
	// Processes are the started processes, by name; nil for InProcess.
	Processes map[string]*Process
}

// MCPConfig writes an mcpServers file with the server `t`, this test binary.
func MCPConfig(t testing.TB, o Options) string {
	t.Helper()
	servers := map[string]any{"t": map[string]any{
		"command": os.Args[0],
		"env":     map[string]string{ServerVariable: "1"},
		"tools": map[string]any{
			"echo": map[string]any{"effect": "read"}, "add": map[string]any{"effect": "read"}, "fail": map[string]any{"effect": "read"},
			"slow": map[string]any{"effect": "read"}, "picture": map[string]any{"effect": "read"}, "append": map[string]any{"effect": "write"}, "falter": map[string]any{"effect": "write"}, "wipe": map[string]any{"effect": "destructive"},
		},
	}}
	for name, server := range o.Servers {
		servers[name] = server
	}
	raw, err := json.MarshalIndent(map[string]any{"mcpServers": servers}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// InProcess starts everything in this process.
func InProcess(t testing.TB, o Options) *Target {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := suite.New(t.Context(), suite.Config{
		DataDir: t.TempDir(), HTTPAddr: "127.0.0.1:0", GRPCAddr: "127.0.0.1:0", MCPConfigs: []string{MCPConfig(t, o)},
		Workspace: o.Workspace, KeysFile: o.Keys, Models: o.Models,
		Executor: executor.Config{MaxRunning: o.MaxRunning, MaxRequests: o.MaxRequests, RequestWindow: o.RequestWindow, AllowWebhookAddresses: o.WebhookAddresses},
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	conn := Dial(t, s.GRPCAddr(), o.Key)
	return (&Target{HTTP: "http://" + s.HTTPAddr(), Executor: conn, Pool: conn, Planner: conn}).await(t)
}

// Binary starts the built pawl as a user does.
func Binary(t testing.TB, bin Binaries, o Options) *Target {
	t.Helper()
	grpcAddr, httpAddr := FreeAddr(t), FreeAddr(t)
	args := []string{"up", "--data", t.TempDir(), "--grpc", grpcAddr, "--http", httpAddr, "--mcp-config", MCPConfig(t, o)}
	if o.Workspace != "" {
		args = append(args, "--workspace", o.Workspace)
	}
	if o.Keys != "" {
		args = append(args, "--keys", o.Keys)
	}
	own := Certificate(o.Certs, "client")
	if o.Certs != "" {
		server := Certificate(o.Certs, "gateway")
		args = append(args, "--tls-cert", server.Cert, "--tls-key", server.Key)
	}
	p := Start(t, bin.Pawl, append(append(args, o.limits()...), o.Flags...)...)
	conn := DialTLS(t, own, grpcAddr, o.Key)
	return (&Target{HTTP: own.Scheme() + "://" + httpAddr, Web: Web(t, own), Executor: conn, Pool: conn, Planner: conn, Processes: map[string]*Process{"pawl": p}}).await(t)
}

// FourProcesses starts each service as a process of its own.
func FourProcesses(t testing.TB, bin Binaries, o Options) *Target {
	t.Helper()
	executor, pool, planner, gateway := FreeAddr(t), FreeAddr(t), FreeAddr(t), FreeAddr(t)
	poolArgs := []string{"--grpc", pool, "--data", t.TempDir(), "--mcp-config", MCPConfig(t, o), "--workspace", o.Workspace, "--planner", planner}
	executorArgs := append([]string{"--grpc", executor, "--data", t.TempDir(), "--planner", planner, "--pool", pool}, o.limits()...)
	plannerArgs := []string{"--grpc", planner}
	if o.Models != "" {
		plannerArgs = append(plannerArgs, "--models", o.Models)
	}
	gatewayArgs := []string{"--http", gateway, "--executor", executor, "--pool", pool, "--planner", planner}
	if o.Keys != "" {
		executorArgs = append(executorArgs, "--keys", o.Keys, "--service-key", o.ServiceKey)
		poolArgs = append(poolArgs, "--keys", o.Keys, "--service-key", o.ServiceKey)
		plannerArgs = append(plannerArgs, "--keys", o.Keys)
	}
	if o.Issuers != "" {
		executorArgs, poolArgs, plannerArgs = append(executorArgs, "--oidc", o.Issuers), append(poolArgs, "--oidc", o.Issuers), append(plannerArgs, "--oidc", o.Issuers)
		gatewayArgs = append(gatewayArgs, "--oidc", o.Issuers)
	}
	if o.MaxConnectionAge > 0 {
		poolArgs = append(poolArgs, "--max-connection-age", o.MaxConnectionAge.String())
	}
	everyone := []string{"executor", "pool", "gateway", "client"}
	poolArgs = append(poolArgs, o.tls("pool", everyone...)...)
	plannerArgs = append(plannerArgs, o.tls("planner", everyone...)...)
	executorArgs = append(executorArgs, o.tls("executor", "gateway", "client")...)
	gatewayArgs = append(gatewayArgs, o.tls("gateway")...)
	own := Certificate(o.Certs, "client")
	target := &Target{HTTP: own.Scheme() + "://" + gateway, Web: Web(t, own), Processes: map[string]*Process{
		"mcppool-svc":  Start(t, bin.Pool, poolArgs...),
		"planner-svc":  Start(t, bin.Planner, plannerArgs...),
		"executor-svc": Start(t, bin.Executor, executorArgs...),
		"gateway":      Start(t, bin.Gateway, gatewayArgs...),
	}}
	target.Executor, target.Pool, target.Planner = DialTLS(t, own, executor, o.Key), DialTLS(t, own, pool, o.Key), DialTLS(t, own, planner, o.Key)
	return target.await(t)
}

// Web returns an HTTP client that trusts the authorities of files; http.DefaultClient if there are none.
func Web(t testing.TB, files serve.TLS) *http.Client {
	t.Helper()
	if files.CA == "" {
		return http.DefaultClient
	}
	raw, err := os.ReadFile(files.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(raw)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// Dial connects to a gRPC address until the test ends.
func Dial(t testing.TB, addr, key string) *grpc.ClientConn {
	t.Helper()
	return DialTLS(t, serve.TLS{}, addr, key)
}

// DialTLS is Dial with certificates.
func DialTLS(t testing.TB, files serve.TLS, addr, key string) *grpc.ClientConn {
	t.Helper()
	certs, err := files.Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := certs.Dial(addr, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// await waits until everything serves.
func (target *Target) await(t testing.TB) *Target {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, conn := range []*grpc.ClientConn{target.Executor, target.Pool, target.Planner} {
		for {
			res, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
			if err == nil && res.GetStatus() == healthpb.HealthCheckResponse_SERVING {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("%s does not serve: %v %v", conn.Target(), res, err)
			}
		}
	}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.HTTP+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := cmp.Or(target.Web, http.DefaultClient).Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return target
			}
		}
		if ctx.Err() != nil {
			t.Fatalf("the gateway is not ready: %v", err)
		}
	}
}

// Process is a process that a test started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a program, shows its standard error in the test's log, and ends it with the test.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			fmt.Fprintf(t.Output(), "%s: %s\n", filepath.Base(name), strings.TrimSpace(lines.Text()))
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Stop asks the process to stop, and fails the test if it does not stop in time.
func (p *Process) Stop(t testing.TB) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		t.Errorf("%s did not stop on SIGTERM", p.cmd.Path)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Binaries are the built programs.
type Binaries struct{ Pawl, Executor, Pool, Planner, Gateway string }

// BinariesVariable is the environment variable that names a folder in which `make build` has built all programs.
const BinariesVariable = "PAWL_TEST_BINARIES"

// Run builds all programs, does what prepare does with the folder that they are built in, and runs the tests. It returns the exit code.
func Run(m *testing.M, binaries *Binaries, prepare ...func(dir string) error) int {
	dir, err := os.MkdirTemp("", "pawl-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	*binaries, err = Build(dir)
	for _, f := range prepare {
		if err == nil {
			err = f(dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build builds all programs into dir, unless BinariesVariable names a folder that has them.
func Build(dir string) (Binaries, error) {
	if built := os.Getenv(BinariesVariable); built != "" {
		return binariesIn(built), nil
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "pawl.dev/cmd/pawl", "pawl.dev/executor-svc", "pawl.dev/mcppool-svc", "pawl.dev/planner-svc", "pawl.dev/gateway")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return Binaries{}, fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return binariesIn(dir), nil
}

func binariesIn(dir string) Binaries {
	in := func(name string) string { return filepath.Join(dir, name) }
	return Binaries{Pawl: in("pawl"), Executor: in("executor-svc"), Pool: in("mcppool-svc"), Planner: in("planner-svc"), Gateway: in("gateway")}
}

// Restart kills one of the target's processes, starts it again with the same flags, and returns when everything serves.
func (target *Target) Restart(t testing.TB, name string) {
	t.Helper()
	old := target.Processes[name]
	old.Kill()
	target.Processes[name] = Start(t, old.cmd.Path, old.cmd.Args[1:]...)
	target.await(t)
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Terminate asks the process to stop, and does not wait.
func (p *Process) Terminate() error { return p.cmd.Process.Signal(syscall.SIGTERM) }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }
