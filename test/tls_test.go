package test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/identity"
	"pawl.dev/services/serve"

	"pawl.dev/test/rig"
)

// makeCerts runs `pawl certs dev`.
func makeCerts(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), binaries.Pawl, append([]string{"certs", "dev", dir}, flags...)...).CombinedOutput(); err != nil {
		t.Fatalf("pawl certs dev: %v %s", err, out)
	}
	return dir
}

// secured starts four processes with keys and mutual TLS.
func secured(t *testing.T, dir string) (target *rig.Target, user string) {
	t.Helper()
	path, key := keys(t)
	user = key("ann", identity.RoleUser)
	return rig.FourProcesses(t, binaries, rig.Options{
		Certs: dir, Keys: path, Key: user, ServiceKey: key("executor", identity.RoleService), Workspace: workspace(t),
		MaxRunning: replacedTasks, MaxConnectionAge: time.Second,
	}), user
}

// serial dials a process, and returns the serial number of its certificate.
func serial(ctx context.Context, t *testing.T, files serve.TLS, addr string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	raw, err := os.ReadFile(files.CA)
	if err != nil || !roots.AppendCertsFromPEM(raw) {
		t.Fatal(err)
	}
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		t.Fatalf("dial %s: %v", addr, err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// replacedTasks is how many tasks run while the certificates are replaced.
const replacedTasks = 24

// Certificates of all processes are replaced while tasks run: no call, stream or task fails (issue 13, shown by 4). Connections to the pool last a
// second, so the services connect with the new certificates all the time; clients make a new connection for each task.
func TestCertificatesReplacedWhileTasksRun(t *testing.T) {
	dir := makeCerts(t, t.TempDir())
	client := rig.Certificate(dir, "client")
	target, user := secured(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 3*caseTimeout)
	defer cancel()
	tasks, taskCtx := errgroup.WithContext(ctx)
	for i := range replacedTasks {
		conn := rig.Client(rig.NewGRPC(rig.DialTLS(t, client, target.Executor.Target(), user)))
		if i%2 == 1 {
			conn = rig.REST{Base: target.HTTP, Key: user, Web: rig.Web(t, client)}
		}
		tasks.Go(func() error { return slowTask(taskCtx, conn) })
	}
	done := make(chan error, 1)
	go func() { done <- tasks.Wait() }()
	addrs := []string{target.Executor.Target(), target.Pool.Target(), target.Planner.Target(), strings.TrimPrefix(target.HTTP, "https://")}
	replaced := 0
	for ended := false; !ended; replaced++ {
		before := map[string]string{}
		for _, addr := range addrs {
			before[addr] = serial(ctx, t, client, addr)
		}
		makeCerts(t, dir, "--force")
		tick := time.NewTicker(100 * time.Millisecond)
		for len(before) > 0 && !ended {
			select {
			case err := <-done:
				if ended = true; err != nil {
					t.Error(err)
				}
			case <-tick.C:
				for addr, old := range before {
					if serial(ctx, t, client, addr) != old {
						delete(before, addr)
					}
				}
			case <-ctx.Done():
				t.Fatalf("still with their previous certificates: %v", before)
			}
		}
		tick.Stop()
	}
	t.Logf("the certificates of all processes were replaced %d times", replaced-1)
	if replaced < 3 {
		t.Errorf("the certificates of all processes were replaced only %d times before the tasks ended", replaced-1)
	}
}

// slowTask runs a task of some seconds to its end and watches it.
func slowTask(ctx context.Context, client rig.Client) error {
	yes := true
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{
		Goal: "go slowly", AutoExecute: &yes, Playbook: "steps:\n" + strings.Repeat("  - {tool: t/slow, input: {steps: 20}}\n", 6),
	})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := client.Watch(ctx, task.GetId(), 0, func(*executorv1.ExecutorEvent) bool { return true }); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if task, err = client.Get(ctx, task.GetId()); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	if task.GetStatus() != executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS {
		return fmt.Errorf("task %v", task)
	}
	return nil
}

// REST and its event streams are served over HTTP/2 without a client certificate; probes need no key.
func TestHTTPS(t *testing.T) {
	dir := makeCerts(t, t.TempDir())
	target, user := secured(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/v1/tasks"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.HTTP+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := target.Web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		want := http.StatusOK
		if path == "/v1/tasks" {
			want = http.StatusUnauthorized
		}
		if res.StatusCode != want || res.ProtoMajor != 2 || res.TLS == nil || res.TLS.Version != tls.VersionTLS13 {
			t.Errorf("%s: %s %s, %+v", path, res.Proto, res.Status, res.TLS)
		}
	}
	if res, err := http.Get("http://" + strings.TrimPrefix(target.HTTP, "https://")); err == nil {
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS: %s", res.Status)
		}
	}
	if err := slowTask(ctx, rig.REST{Base: target.HTTP, Key: user, Web: target.Web}); err != nil {
		t.Error(err)
	}
}

// expired signs a certificate that has expired with the authority of a folder.
func expired(t *testing.T, dir string) serve.TLS {
	t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "ca-key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{DNSNames: []string{"client", "localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(-time.Minute)}
	cert, err := x509.CreateCertificate(rand.Reader, template, ca.Leaf, &key.PublicKey, ca.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := rig.Certificate(t.TempDir(), "expired")
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert}, files.Key: {Type: "PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files.CA = filepath.Join(dir, "ca.pem")
	return files
}

// A wrong authority, a wrong name, an expired certificate and none at all are refused, and the error says why: to the command line, at start, and
// in the gateway's readiness.
func TestCertificatesRefused(t *testing.T) {
	dir, foreign := makeCerts(t, t.TempDir()), makeCerts(t, t.TempDir())
	target, user := secured(t, dir)
	old, client := expired(t, dir), rig.Certificate(dir, "client")
	wrongCA, noCert := client, serve.TLS{CA: client.CA}
	wrongCA.CA = filepath.Join(foreign, "ca.pem")
	unknown := rig.Certificate(foreign, "client")
	unknown.CA = client.CA
	for name, tc := range map[string]struct {
		addr  string
		files serve.TLS
		says  string // "": accepted
	}{
		"right":           {target.Executor.Target(), client, ""},
		"wrong authority": {target.Executor.Target(), wrongCA, "certificate signed by unknown authority"},
		"wrong name":      {target.Executor.Target(), rig.Certificate(dir, "planner"), "remote error: tls: bad certificate"},
		"unknown":         {target.Pool.Target(), unknown, "remote error: tls: unknown certificate authority"},
		"no certificate":  {target.Planner.Target(), noCert, "remote error: tls: certificate required"},
		"expired":         {target.Executor.Target(), old, "has expired at"},
	} {
		t.Run("pawl/"+name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), binaries.Pawl, "tasks", "--server", "https://"+tc.addr, "--key", user, "--ca", tc.files.CA)
			if tc.files.Cert != "" {
				cmd.Args = append(cmd.Args, "--client-cert", tc.files.Cert, "--client-key", tc.files.Key)
			}
			out, err := cmd.CombinedOutput()
			if (err == nil) != (tc.says == "") || !strings.Contains(string(out), tc.says) {
				t.Errorf("%v: %s, want %q", err, out, tc.says)
			}
		})
	}
	t.Run("expired while it runs", func(t *testing.T) { refusedLater(t, old, target.Executor.Target()) })
	t.Run("expired at start", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), binaries.Planner, "--grpc", rig.FreeAddr(t), "--tls-cert", old.Cert, "--tls-key", old.Key).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "has expired at") {
			t.Errorf("%v %s", err, out)
		}
	})
	wrongCA = rig.Certificate(dir, "gateway")
	wrongCA.CA = filepath.Join(foreign, "ca.pem")
	for name, tc := range map[string]struct {
		files serve.TLS
		says  string
	}{"wrong authority": {wrongCA, "unknown authority"}, "wrong name": {rig.Certificate(dir, "planner"), "bad certificate"}} {
		t.Run("gateway/"+name, func(t *testing.T) { unready(t, target, tc.files, tc.says) })
	}
	if _, err := healthpb.NewHealthClient(target.Planner).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// refusedLater connects with a certificate that Pawl's own clients would not use any longer. With TLS 1.3 the refusal arrives after the handshake.
func refusedLater(t *testing.T, files serve.TLS, addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		defer func() { _ = conn.Close() }()
		_, err = io.ReadAll(conn)
	}
	if err == nil || !strings.Contains(err.Error(), "expired certificate") {
		t.Errorf("error %v", err)
	}
}

// unready starts one more gateway with these files. It cannot reach the executor; the reason is in its log.
func unready(t *testing.T, target *rig.Target, files serve.TLS, reason string) {
	t.Helper()
	addr, log := rig.FreeAddr(t), filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	gateway := exec.CommandContext(ctx, binaries.Gateway, "--http", addr, "--executor", target.Executor.Target(), "--pool", target.Pool.Target(),
		"--planner", target.Planner.Target(), "--tls-cert", files.Cert, "--tls-key", files.Key, "--tls-ca", files.CA)
	gateway.Stderr = out
	if err := gateway.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = gateway.Wait() }()
	awaitPort(t.Context(), t, addr)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := target.Web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), `"executor":{"ready":false,"status":"UNREACHABLE"`) {
		t.Errorf("%s %s: %v", res.Status, body, err)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), reason) {
		t.Errorf("log %s, %v; want %q", text, err, reason)
	}
}

// A service does not send its key over a network without TLS: it does not start, and says what to do.
func TestServiceKeyOverANetwork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	for name, c := range map[string]struct{ program, flag, addrs, refused string }{
		"planner of the executor": {binaries.Executor, "--planner", "192.0.2.1:7412", "192.0.2.1:7412"},
		"pool of the executor":    {binaries.Executor, "--pool", "127.0.0.1:7411,192.0.2.1:7411", "192.0.2.1:7411"},
		"planner of the pool":     {binaries.Pool, "--planner", "planner.example:7412", "planner.example:7412"},
		"replicas of the pool":    {binaries.Pool, "--peers", "dns:///pool.example:7411", "pool.example:7411"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(ctx, c.program, "--grpc", "127.0.0.1:0", "--data", t.TempDir(), "--service-key", "k", c.flag, c.addrs).CombinedOutput()
			for _, want := range []string{"refusing to send --service-key to " + c.refused, c.flag, "--tls-ca", "--insecure"} {
				if err == nil || !strings.Contains(string(out), want) {
					t.Errorf("%v, without %q: %s", err, want, out)
				}
			}
		})
	}
	addr := rig.FreeAddr(t)
	rig.Start(t, binaries.Executor, "--grpc", addr, "--data", t.TempDir(), "--service-key", "k", "--planner", "192.0.2.1:7412", "--insecure")
	awaitPort(ctx, t, addr)
}
