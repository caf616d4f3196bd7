package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// restate is the peer: its server and one worker per SDK, doing ten durable steps in the worker's own process.
type restate struct {
	server, ts, golang *process
	startServer        func() (*process, error)
	ingress, admin     string
	folder, data       string
	client             *http.Client
}

// startRestate installs and starts the peer with its TypeScript worker.
func (b *bench) startRestate(ctx context.Context) (r *restate, err error) {
	r = &restate{folder: filepath.Join(b.root, "test", "bench", "restate"), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	modules := filepath.Join(r.folder, "node_modules")
	if _, err := os.Stat(filepath.Join(modules, "@restatedev")); err != nil {
		b.logf("installing Restate from npm")
		if _, err := b.command(ctx, r.folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return r, err
		}
	}
	addrs, err := freeAddrs(ctx, 4)
	if err != nil {
		return r, err
	}
	if r.data, err = b.folder(); err != nil {
		return r, err
	}
	r.ingress, r.admin = addrs[0], addrs[1]
	r.startServer = func() (*process, error) {
		return b.start("restate-server", []string{
			"RESTATE_INGRESS__BIND_ADDRESS=" + r.ingress, "RESTATE_ADMIN__BIND_ADDRESS=" + r.admin, "RESTATE_BIND_ADDRESS=" + addrs[2],
			"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn",
		}, filepath.Join(modules, "@restatedev", "restate-server-"+platform(), "bin", "restate-server"),
			"--no-logo", "--node-name", "bench", "--base-dir", r.data)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	if err := r.takeUp(ctx); err != nil {
		return r, err
	}
	node := filepath.Join(modules, "node-"+platform(), "bin", "node")
	if r.ts, err = b.startWorker(ctx, addrs[3], node, filepath.Join(r.folder, "worker.mjs")); err != nil {
		return r, err
	}
	return r, r.register(ctx, addrs[3])
}

// platform is this one as npm names it.
func platform() string {
	if runtime.GOARCH == "amd64" {
		return runtime.GOOS + "-x64"
	}
	return runtime.GOOS + "-" + runtime.GOARCH
}

// takeUp starts the server and waits until it serves.
func (r *restate) takeUp(ctx context.Context) (err error) {
	if r.server, err = r.startServer(); err != nil {
		return err
	}
	return r.server.await(ctx, func(ctx context.Context) bool {
		return r.healthy(ctx, "http://"+r.admin+"/health") && r.healthy(ctx, "http://"+r.ingress+"/restate/health")
	})
}

// addGoWorker builds the Go worker, a module of its own; where that fails, it is said and the rest goes on.
func (b *bench) addGoWorker(ctx context.Context, r *restate) error {
	addr, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	folder := filepath.Join(r.folder, "goworker")
	program := filepath.Join(b.work, "goworker")
	if _, err := b.command(ctx, folder, "env", "GOWORK=off", "go", "build", "-o", program, "."); err != nil {
		b.logf("Restate's Go SDK is left out: %v", err)
		return nil
	}
	if r.golang, err = b.startWorker(ctx, addr, program); err != nil {
		return err
	}
	return r.register(ctx, addr)
}

// startWorker starts a worker and waits until it listens.
func (b *bench) startWorker(ctx context.Context, addr, program string, args ...string) (*process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := b.start("worker", []string{"PORT=" + port, "RESTATE_LOGGING=ERROR", "NODE_ENV=production"}, program, args...)
	if err != nil {
		return nil, err
	}
	return p, p.await(ctx, func(ctx context.Context) bool {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

func (r *restate) healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	res, err := r.client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// register tells the server of a worker.
func (r *restate) register(ctx context.Context, worker string) error {
	_, err := r.post(ctx, "http://"+r.admin+"/deployments", fmt.Sprintf(`{"uri": "http://%s"}`, worker))
	return err
}

func (r *restate) post(ctx context.Context, url, body string) (string, error) {
	return r.do(ctx, http.MethodPost, url, body)
}

func (r *restate) do(ctx context.Context, method, url, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader([]byte(body)))
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
	if err != nil {
		return "", err
	}
	if res.StatusCode/100 != 2 {
		return "", fmt.Errorf("%s: %s: %s", url, res.Status, tail(string(raw)))
	}
	return string(raw), nil
}

// contender is the peer with one of its workers.
func (r *restate) contender(name, service string, worker *process) *contender {
	return &contender{name: name, processes: []*process{r.server, worker}, run: func(ctx context.Context) error {
		said, err := r.post(ctx, "http://"+r.ingress+"/"+service+"/Run", `"hello"`)
		if err == nil && strings.TrimSpace(said) != `"hello"` {
			err = fmt.Errorf("%s answered %q", service, said)
		}
		return err
	}}
}

// contenders are those workers that run.
func (r *restate) contenders() []*contender {
	all := []*contender{r.contender(peerTS, "BenchTS", r.ts)}
	if r.golang != nil {
		all = append(all, r.contender(peerGo, "BenchGo", r.golang))
	}
	return all
}

func (r *restate) stop() error {
	var errs []error
	for _, p := range []*process{r.server, r.ts, r.golang} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	return errors.Join(errs...)
}

// peerBytes is the size of the peer's folder, sparse files as they are stored; 0 without the peer.
func (b *bench) peerBytes(ctx context.Context) (float64, error) {
	if b.peerFolder == "" {
		return 0, nil
	}
	out, err := b.command(ctx, b.work, "du", "-s", "--block-size=1", b.peerFolder)
	if err != nil {
		return 0, err
	}
	var n float64
	_, err = fmt.Sscan(out, &n)
	return n, err
}
