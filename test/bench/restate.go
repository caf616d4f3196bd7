package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The names of the peer's systems.
const (
	peerTS = "Restate, TypeScript SDK"
	peerGo = "Restate, Go SDK"
)

// restate is the peer: its server, and one worker per SDK that runs ten durable steps in its own process.
type restate struct {
	server         *process
	restart        func(context.Context) // starts the server
	contenders     []*contender          // the server with each of its workers
	ingress, admin string
	folder         string
	client         *http.Client
}

// startRestate installs and starts the peer with its TypeScript worker.
func (b *bench) startRestate(ctx context.Context) *restate {
	r := &restate{folder: filepath.Join(b.root, "test", "bench", "restate"), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	modules := filepath.Join(r.folder, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@restatedev")); err != nil {
		b.logf("installing Restate from npm")
		b.command(ctx, r.folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	platform := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1) // as npm names it
	addrs, data := freeAddrs(ctx, 3), b.folder()
	r.ingress, r.admin = addrs[0], addrs[1]
	r.restart = func(ctx context.Context) {
		r.server = b.start("restate-server", []string{
			"RESTATE_INGRESS__BIND_ADDRESS=" + r.ingress, "RESTATE_ADMIN__BIND_ADDRESS=" + r.admin, "RESTATE_BIND_ADDRESS=" + addrs[2],
			"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn",
		}, filepath.Join(modules, "@restatedev", "restate-server-"+platform, "bin", "restate-server"),
			"--no-logo", "--node-name", "bench", "--base-dir", data)
		r.server.await(ctx, func(ctx context.Context) bool {
			_, adminErr := r.do(ctx, http.MethodGet, "http://"+r.admin+"/health", "")
			_, ingressErr := r.do(ctx, http.MethodGet, "http://"+r.ingress+"/restate/health", "")
			return adminErr == nil && ingressErr == nil
		})
	}
	r.restart(ctx)
	b.startWorker(ctx, r, peerTS, "BenchTS", filepath.Join(modules, "node-"+platform, "bin", "node"), filepath.Join(r.folder, "worker.mjs"))
	return r
}

// addGoWorker builds and starts the Go worker, which is a module of its own. A failure is only logged.
func (b *bench) addGoWorker(ctx context.Context, r *restate) {
	err := b.try(func() {
		program := filepath.Join(b.work, "goworker")
		b.command(ctx, filepath.Join(r.folder, "goworker"), "env", "GOWORK=off", "go", "build", "-o", program, ".")
		b.startWorker(ctx, r, peerGo, "BenchGo", program)
	})
	if err != nil {
		b.logf("Restate's Go SDK is left out: %v", err)
	}
}

// startWorker starts a worker, waits until it listens, and registers it with the server.
func (b *bench) startWorker(ctx context.Context, r *restate, name, service, program string, args ...string) {
	addr := freeAddrs(ctx, 1)[0]
	_, port, err := net.SplitHostPort(addr)
	check(err)
	p := b.start("worker", []string{"PORT=" + port, "RESTATE_LOGGING=ERROR", "NODE_ENV=production"}, program, args...)
	p.await(ctx, func(ctx context.Context) bool { return listening(ctx, addr) })
	must(r.do(ctx, http.MethodPost, "http://"+r.admin+"/deployments", fmt.Sprintf(`{"uri": "http://%s"}`, addr)))
	run := func(ctx context.Context) error {
		output, err := r.do(ctx, http.MethodPost, "http://"+r.ingress+"/"+service+"/Run", `"hello"`)
		if err == nil && strings.TrimSpace(output) != `"hello"` {
			err = fmt.Errorf("%s answered %q", service, output)
		}
		return err
	}
	r.contenders = append(r.contenders, &contender{name: name, processes: []*process{r.server, p}, run: run, steps: stepsPerTask})
}

// do makes an HTTP request and returns the response's body. Any status but 2xx is an error.
func (r *restate) do(ctx context.Context, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, tail(string(raw)))
	}
	return string(raw), err
}

// send starts a run without waiting for it, and returns its id. Each step of the run appends a line to the file effects.
func (r *restate) send(ctx context.Context, effects string, i int) string {
	body := must(json.Marshal(map[string]any{"path": effects, "name": fmt.Sprintf("task-%d", i), "milliseconds": workTime.Milliseconds()}))
	response := must(r.do(ctx, http.MethodPost, "http://"+r.ingress+"/BenchTS/Work/send", string(body)))
	var sent struct {
		InvocationID string `json:"invocationId"`
	}
	if err := json.Unmarshal([]byte(response), &sent); err != nil || sent.InvocationID == "" {
		check(fmt.Errorf("the response of Restate to a sent run has no invocationId: %q", response))
	}
	return sent.InvocationID
}

// attach waits until a run has ended.
func (r *restate) attach(ctx context.Context, id string) (string, error) {
	return r.do(ctx, http.MethodGet, "http://"+r.ingress+"/restate/invocation/"+id+"/attach", "")
}
