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

// restate is the peer: its server and one worker per SDK, doing ten durable steps in the worker's own process.
type restate struct {
	server, ts, golang *process
	takeUp             func(context.Context) // starts the server
	ingress, admin     string
	folder, data       string
	client             *http.Client
}

// startRestate installs and starts the peer with its TypeScript worker.
func (b *bench) startRestate(ctx context.Context) *restate {
	r := &restate{folder: filepath.Join(b.root, "test", "bench", "restate"), data: b.folder(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	modules := filepath.Join(r.folder, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@restatedev")); err != nil {
		b.logf("installing Restate from npm")
		b.command(ctx, r.folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	}
	platform := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1) // as npm names it
	addrs := freeAddrs(ctx, 3)
	r.ingress, r.admin = addrs[0], addrs[1]
	r.takeUp = func(ctx context.Context) {
		r.server = b.start("restate-server", []string{
			"RESTATE_INGRESS__BIND_ADDRESS=" + r.ingress, "RESTATE_ADMIN__BIND_ADDRESS=" + r.admin, "RESTATE_BIND_ADDRESS=" + addrs[2],
			"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn",
		}, filepath.Join(modules, "@restatedev", "restate-server-"+platform, "bin", "restate-server"),
			"--no-logo", "--node-name", "bench", "--base-dir", r.data)
		r.server.await(ctx, func(ctx context.Context) bool {
			_, admin := r.do(ctx, http.MethodGet, "http://"+r.admin+"/health", "")
			_, ingress := r.do(ctx, http.MethodGet, "http://"+r.ingress+"/restate/health", "")
			return admin == nil && ingress == nil
		})
	}
	r.takeUp(ctx)
	r.ts = b.startWorker(ctx, r, filepath.Join(modules, "node-"+platform, "bin", "node"), filepath.Join(r.folder, "worker.mjs"))
	return r
}

// addGoWorker builds the Go worker, a module of its own; if that fails, it is said and the rest goes on.
func (b *bench) addGoWorker(ctx context.Context, r *restate) {
	program := filepath.Join(b.work, "goworker")
	err := b.try(func() {
		b.command(ctx, filepath.Join(r.folder, "goworker"), "env", "GOWORK=off", "go", "build", "-o", program, ".")
	})
	if err != nil {
		b.logf("Restate's Go SDK is left out: %v", err)
		return
	}
	r.golang = b.startWorker(ctx, r, program)
}

// startWorker starts a worker, waits until it listens, and tells the server of it.
func (b *bench) startWorker(ctx context.Context, r *restate, program string, args ...string) *process {
	addr := freeAddrs(ctx, 1)[0]
	_, port, err := net.SplitHostPort(addr)
	check(err)
	p := b.start("worker", []string{"PORT=" + port, "RESTATE_LOGGING=ERROR", "NODE_ENV=production"}, program, args...)
	p.await(ctx, func(ctx context.Context) bool { return listening(ctx, addr) })
	must(r.do(ctx, http.MethodPost, "http://"+r.admin+"/deployments", fmt.Sprintf(`{"uri": "http://%s"}`, addr)))
	return p
}

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

// contenders are the peer with each of its workers that run.
func (r *restate) contenders() []*contender {
	var all []*contender
	for _, w := range []struct {
		name, service string
		worker        *process
	}{{peerTS, "BenchTS", r.ts}, {peerGo, "BenchGo", r.golang}} {
		if w.worker == nil {
			continue
		}
		all = append(all, &contender{name: w.name, processes: []*process{r.server, w.worker}, run: func(ctx context.Context) error {
			said, err := r.do(ctx, http.MethodPost, "http://"+r.ingress+"/"+w.service+"/Run", `"hello"`)
			if err == nil && strings.TrimSpace(said) != `"hello"` {
				err = fmt.Errorf("%s answered %q", w.service, said)
			}
			return err
		}})
	}
	return all
}

// send starts a run without waiting for it, and returns its id.
func (r *restate) send(ctx context.Context, effects string, i int) string {
	body := must(json.Marshal(map[string]any{"path": effects, "name": fmt.Sprintf("task-%d", i), "milliseconds": workTime.Milliseconds()}))
	said := must(r.do(ctx, http.MethodPost, "http://"+r.ingress+"/BenchTS/Work/send", string(body)))
	var sent struct {
		InvocationID string `json:"invocationId"`
	}
	if err := json.Unmarshal([]byte(said), &sent); err != nil || sent.InvocationID == "" {
		check(fmt.Errorf("the answer to a sent run is %q: %w", said, err))
	}
	return sent.InvocationID
}

// attach waits until a run has ended.
func (r *restate) attach(ctx context.Context, id string) (string, error) {
	return r.do(ctx, http.MethodGet, "http://"+r.ingress+"/restate/invocation/"+id+"/attach", "")
}

// peerBytes is the size of the peer's folder, sparse files as they are stored; 0 without the peer.
func (b *bench) peerBytes(ctx context.Context) (n float64) {
	if b.peerFolder != "" {
		must(fmt.Sscan(b.command(ctx, b.work, "du", "-s", "--block-size=1", b.peerFolder), &n))
	}
	return n
}
