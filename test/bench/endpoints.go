package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"pawl.dev/test/mcpserver"
	"pawl.dev/test/modelserver/modeltest"
)

const (
	// callsEach and answersEach are the numbers of tool calls and of answers of each way, one at a time.
	callsEach, answersEach = 500, 300
	// streamCount is the number of answers that are streamed at once. Each has streamEvents events, with streamPause between them.
	streamCount, streamEvents, streamPause = 500, 20, 100 * time.Millisecond
)

// endpoint is a way to a tool and a model: directly, or through Pawl.
type endpoint struct {
	name      string
	tool      string // address of the MCP server
	model     string // base URL of the OpenAI API
	processes []*process
}

// endpoints compares tool calls through /mcp and answers through /openai/v1 with the same ones made directly.
func (b *bench) endpoints(ctx context.Context, d *document) {
	tool := httptest.NewServer(server.NewStreamableHTTPServer(mcpserver.New()))
	script := &modeltest.Script{Play: playAnswer}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		modeltest.New(script, nil).ServeHTTP(w, r) // a server keeps its requests, and compares each with all before it
	}))
	b.atEnd(func() error { tool.Close(); model.Close(); return nil })
	direct := &endpoint{name: "directly", tool: tool.URL + "/mcp", model: model.URL + "/v1"}
	all := []*endpoint{direct, b.startEndpoint(ctx, direct, false), b.startEndpoint(ctx, direct, true)}
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streamCount}}
	var calls, answers []func(context.Context) (time.Duration, error)
	for _, way := range all {
		calls = append(calls, b.toolCall(ctx, way))
		answers = append(answers, func(ctx context.Context) (time.Duration, error) { return firstToken(ctx, web, way, "Answer") })
	}
	d.text("The MCP server, the scripted model and their caller are this program; each way is used in turns, by one caller at a time. Through Pawl, the same calls pass the "+
		"gateway, over HTTP, and the pool, or the executor and the planner: %d tool calls and %d answers each.", b.scaled(callsEach), b.scaled(answersEach))
	b.oneAtATime(ctx, d, "a tool call over streamable HTTP, p50, ms", "≤ 0.6", all, b.scaled(callsEach), calls)
	b.oneAtATime(ctx, d, "the first token of a streamed chat completion, p50, ms", "≤ 2", all, b.scaled(answersEach), answers)
	b.streams(ctx, d, web, all)
}

// playAnswer answers at once, or slowly.
func playAnswer(r *modeltest.Request) *modeltest.Turn {
	turn := &modeltest.Turn{Text: strings.Repeat("Of note.", streamEvents)}
	if strings.Contains(r.Texts[0], "slowly") {
		turn.Pause = modeltest.Seconds(streamPause)
	}
	return turn
}

// startEndpoint starts Pawl in front of the tool and the model of an endpoint, in one process or in four, until the measurement ends.
func (b *bench) startEndpoint(ctx context.Context, to *endpoint, split bool) *endpoint {
	addrs, data, n := freeAddrs(ctx, 4), b.folder(), network{}
	addr, web, planner, pool := addrs[0], addrs[1], addrs[2], addrs[3]
	models := filepath.Join(data, "models.yaml")
	check(os.WriteFile(models, fmt.Appendf(nil, "models:\n- {name: m, provider: openai, model: m, baseUrl: %q, headers: {Authorization: Bearer x}, atOnce: 1000, retries: 0}\n", to.model), 0o600))
	config := b.mcpConfig(map[string]any{"url": to.tool, "tools": map[string]any{"echo": map[string]string{"effect": "read"}}})
	out := &endpoint{name: "through pawl up", tool: "http://" + web + "/mcp/t", model: "http://" + web + "/openai/v1"}
	if split {
		out.name = "through four processes"
		out.processes = []*process{
			b.serve(ctx, "planner", planner, n, b.program("planner-svc"), "--models", models),
			b.serve(ctx, "pool", pool, n, b.program("mcppool-svc"), "--mcp-config", config, "--data", data+"-pool"),
			b.serve(ctx, "executor", addr, n, b.program("executor-svc"), "--data", data, "--planner", planner, "--pool", pool),
			b.start("gateway", nil, b.program("gateway"), "--http", web, "--executor", addr, "--planner", planner, "--pool", pool),
		}
	} else {
		out.processes = []*process{b.serve(ctx, "pawl", addr, n, b.program("pawl"), "up", "--data", data, "--http", web, "--models", models, "--mcp-config", config, "--no-workspace")}
	}
	out.processes[len(out.processes)-1].await(ctx, func(ctx context.Context) bool { return isReady(ctx, "http://"+web) })
	return out
}

// isReady reports whether a gateway and the services behind it serve.
func isReady(ctx context.Context, base string) bool {
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", http.NoBody))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// toolCall returns a function that calls an endpoint's tool and measures the call.
func (b *bench) toolCall(ctx context.Context, to *endpoint) func(context.Context) (time.Duration, error) {
	c := must(mcpclient.NewStreamableHttpClient(to.tool))
	b.atEnd(c.Close)
	check(c.Start(ctx))
	must(c.Initialize(ctx, mcp.InitializeRequest{}))
	req := mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}}
	return func(ctx context.Context) (time.Duration, error) {
		began := time.Now()
		res, err := c.CallTool(ctx, req)
		took := time.Since(began)
		if err == nil && res.IsError {
			err = fmt.Errorf("%s: the tool call failed: %v", to.name, res.Content)
		}
		return took, err
	}
}

// firstToken asks for a streamed answer and returns the time to its first text. It reads the answer to its end.
func firstToken(ctx context.Context, web *http.Client, to *endpoint, text string) (took time.Duration, err error) {
	body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"user","content":%q}]}`, text)
	req := must(http.NewRequestWithContext(ctx, http.MethodPost, to.model+"/chat/completions", strings.NewReader(body)))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer x")
	began := time.Now()
	resp, err := web.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var last string
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if line := lines.Text(); line != "" {
			last = line
		}
		if took == 0 && strings.Contains(last, `"content":"Of`) {
			took = time.Since(began)
		}
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if took == 0 || last != "data: [DONE]" {
		return 0, errors.New(to.name + ": the answer ended with " + tail(last))
	}
	return took, nil
}

// oneAtATime makes n calls of each way, in turns, and adds a table of their times.
func (b *bench) oneAtATime(ctx context.Context, d *document, what, target string, all []*endpoint, n int, ways []func(context.Context) (time.Duration, error)) {
	took, used := make([][]time.Duration, len(ways)), make([]float64, len(ways))
	for k, way := range all {
		used[k] = -way.sum(cpuSeconds)
	}
	for i := range n + n/10 {
		for j := range ways {
			k := (i + j) % len(ways)
			if one := must(ways[k](ctx)); i >= n/10 { // before that, connections and caches are new
				took[k] = append(took[k], one)
			}
		}
	}
	direct, _ := quantiles(took[0])
	var rows [][]string
	for k, way := range all {
		p50, _ := quantiles(took[k])
		row := []string{way.name, figure(p50), none, none, "", none}
		if k > 0 {
			cpu := (used[k] + way.sum(cpuSeconds)) * 1000 / float64(n+n/10)
			row = []string{way.name, figure(p50), figure(p50 - direct), ratio(p50, direct), target, figure(cpu)}
		}
		rows = append(rows, row)
		b.logf("%s, %s: %s", what, way.name, strings.Join(row[1:], " "))
	}
	d.table([]string{"", what, "added", "of directly", "target, added", "CPU of Pawl, ms"}, rows)
}

// streams measures many answers that are streamed at once, twice that number in all. One that fails ends the measurement.
func (b *bench) streams(ctx context.Context, d *document, web *http.Client, all []*endpoint) {
	n := b.scaled(streamCount)
	var rows [][]string
	var direct float64
	for _, way := range all {
		var mu sync.Mutex // guards first and whole
		var first, whole []time.Duration
		before := way.sum(cpuSeconds)
		times(ctx, 2*n, n, func(ctx context.Context) error {
			began := time.Now()
			took, err := firstToken(ctx, web, way, "Answer slowly")
			mu.Lock()
			defer mu.Unlock()
			first, whole = append(first, took), append(whole, time.Since(began))
			return err
		})
		used, memory := (way.sum(cpuSeconds)-before)*1000/float64(2*n), way.sum(anonymousMB)
		firstP50, firstP99 := quantiles(first)
		wholeP50, _ := quantiles(whole)
		if way == all[0] {
			direct = wholeP50
		}
		rows = append(rows, []string{way.name, figure(firstP50), figure(firstP99), figure(wholeP50), ratio(wholeP50, direct), figure(used), figure(memory)})
		b.logf("%d streams %s: first token p50 %.0f ms, whole %.0f ms, CPU %.2f s per 1,000, %.0f MB", n, way.name, firstP50, wholeP50, used, memory)
	}
	d.text("**%d streams at once**, each of %d events in %v, %d in all; each was answered to its end. They begin together, so the first tokens wait for each other. Memory is that after the last "+
		"stream. No bound of the processes is raised, except `atOnce` of the model.", n, streamEvents, (streamEvents-1)*streamPause, 2*n)
	d.table([]string{"", "first token, p50, ms", "p99", "whole stream, p50, ms", "of directly", "CPU s per 1,000 streams", "memory, MB"}, rows)
}

// sum returns the sum of a figure over the processes between the caller and the model.
func (e *endpoint) sum(of func(pid int) float64) (sum float64) {
	for _, p := range e.processes {
		sum += of(p.pid)
	}
	return sum
}
