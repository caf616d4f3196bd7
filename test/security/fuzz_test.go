package security

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"pawl.dev/services/identity"
	"pawl.dev/test/rig"
)

var (
	fuzzRequests = flag.Int("fuzz.requests", 50000, "how many REST requests TestFuzzREST sends")
	fuzzSeed     = flag.Uint64("fuzz.seed", 1, "the seed of TestFuzzREST")
)

const (
	fuzzClients = 16
	// fuzzTimeout cuts off streams that follow a task or watch servers, and calls of slow tools.
	fuzzTimeout = 250 * time.Millisecond
	// maxGrowth bounds how much the heap may grow over the second half of the requests.
	maxGrowth = 8 << 20
	// maxGoroutines bounds how many more goroutines there may be after them.
	maxGoroutines = 100
	maxReports    = 20
)

// fuzzRun sends requests and counts the answers.
type fuzzRun struct {
	t      *testing.T
	in     *installation
	doc    *document
	ids    *idPool
	tasks  *idPool
	folder string
	keys   []string
	web    *http.Client
	next   atomic.Int64
	faults atomic.Int32
	mu     sync.Mutex
	counts map[int]int // by status; guarded by mu
}

// TestFuzzREST sends requests that are made from the OpenAPI document, and many that do not fit it: no answer is a 500, nothing panics, and neither
// memory nor goroutines grow. Each request has a seed of its own.
func TestFuzzREST(t *testing.T) {
	var keys []string
	folder := t.TempDir()
	in := start(t, rig.Options{Servers: map[string]any{"t": map[string]any{
		"command": os.Args[0], "env": map[string]string{rig.ServerVariable: "1"}, "cwd": folder, "tools": map[string]any{"*": map[string]any{"effect": "read"}},
	}}}, func(in *installation) {
		in.log.errorsOnly = true
		user := in.key(t, identity.Key{Sub: "ann", Roles: []identity.Role{identity.RoleUser}})
		operator := in.key(t, identity.Key{Sub: "olga", Roles: []identity.Role{identity.RoleUser, identity.RoleOperator}})
		keys = []string{user, user, user, user, operator}
	})
	transport := &http.Transport{MaxIdleConnsPerHost: fuzzClients, DisableCompression: true}
	run := &fuzzRun{
		t: t, in: in, folder: folder, keys: keys, ids: &idPool{ids: []string{"t"}, except: []string{idOf(keys[0]), idOf(keys[4])}}, tasks: &idPool{ids: []string{uuid.Nil.String()}},
		web: &http.Client{Transport: transport}, counts: map[int]int{},
	}
	defer transport.CloseIdleConnections()
	var err error
	if run.doc, err = readDocument(run.fetch("/openapi.json")); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	run.send(*fuzzRequests / 2)
	heap, goroutines := settled(transport, 0)
	run.send(*fuzzRequests)
	heapAfter, goroutinesAfter := settled(transport, goroutines+maxGoroutines)
	t.Logf("%d operations, %d requests in %s: %v; heap %d → %d MiB, %d → %d goroutines", len(run.doc.operations), *fuzzRequests,
		time.Since(begun).Round(time.Second), run.counts, heap>>20, heapAfter>>20, goroutines, goroutinesAfter)
	if heapAfter > heap+maxGrowth {
		t.Errorf("the heap grew from %d to %d bytes", heap, heapAfter)
	}
	if goroutinesAfter > goroutines+maxGoroutines {
		t.Errorf("the goroutines grew from %d to %d", goroutines, goroutinesAfter)
	}
	if run.counts[http.StatusOK] < *fuzzRequests/20 {
		t.Errorf("only %d requests were answered with 200: the others do not reach far", run.counts[http.StatusOK])
	}
	for _, line := range in.log.lines() {
		if line != "" {
			run.report("the log: %s", line)
		}
	}
}

func (run *fuzzRun) report(format string, args ...any) {
	if run.faults.Add(1) <= maxReports {
		run.t.Errorf("%.2000s", fmt.Sprintf(format, args...))
	}
}

// send sends the requests up to number n.
func (run *fuzzRun) send(n int) {
	var clients sync.WaitGroup
	for range fuzzClients {
		clients.Go(func() {
			for i := run.next.Add(1); i <= int64(n); i = run.next.Add(1) {
				run.one(uint64(i))
			}
		})
	}
	clients.Wait()
	run.next.Store(int64(n))
}

func (run *fuzzRun) one(i uint64) {
	r := rand.New(rand.NewPCG(*fuzzSeed, i))
	f := &fuzzer{Rand: r, doc: run.doc, ids: run.ids, tasks: run.tasks, folder: run.folder, wild: pick(r, []float64{0, 0, 0.02, 0.1, 0.3})}
	req, err := f.request(run.in.http)
	if err != nil {
		return // a client cannot send it
	}
	if !f.chance(0.02) {
		req.Header.Set("Authorization", "Bearer "+pick(r, run.keys))
	}
	ctx, cancel := context.WithTimeout(run.t.Context(), fuzzTimeout)
	defer cancel()
	var sent []byte
	if body, err := req.GetBody(); err == nil {
		sent, _ = io.ReadAll(body)
	}
	res, err := run.web.Do(req.WithContext(ctx))
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "invalid") { // net/http refuses to send it
			run.report("request %d: %v\n%s %s %v %s", i, err, req.Method, req.URL, req.Header, sent)
		}
		return
	}
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	_ = res.Body.Close()
	run.mu.Lock()
	run.counts[res.StatusCode]++
	run.mu.Unlock()
	if res.StatusCode >= 500 && res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusGatewayTimeout {
		run.report("request %d is answered with %d %s\n%s %s %v %s", i, res.StatusCode, body, req.Method, req.URL, req.Header, sent)
	}
	for _, m := range identifier.FindAllSubmatch(body[:min(len(body), 4<<10)], 2) {
		run.ids.add(string(m[1]))
		if uuid.Validate(string(m[1])) == nil {
			run.tasks.add(string(m[1]))
		}
	}
}

var identifier = regexp.MustCompile(`"(?:id|waitId|callId)":\s*"([^"]{1,64})"`)

func (run *fuzzRun) fetch(path string) []byte {
	req, err := http.NewRequestWithContext(run.t.Context(), http.MethodGet, run.in.http+path, nil)
	if err != nil {
		run.t.Fatal(err)
	}
	res, err := run.web.Do(req)
	if err != nil {
		run.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || !json.Valid(body) {
		run.t.Fatalf("%s: %v %.100s", path, err, body)
	}
	return body
}

// settled returns the size of the heap and the number of goroutines once there are at most so many, or when they do not become fewer for a while.
func settled(transport *http.Transport, atMost int) (heap uint64, goroutines int) {
	transport.CloseIdleConnections()
	least := runtime.NumGoroutine()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for waited := 0; waited < 20; waited++ {
		<-tick.C
		if n := runtime.NumGoroutine(); n < least {
			least, waited = n, 0
		}
		if least <= atMost {
			break
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, least
}
