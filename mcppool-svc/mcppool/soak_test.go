package mcppool

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// soakVariable, if set in the environment, makes TestNothingGrows run soakRounds rounds instead of shortRounds.
const soakVariable = "PAWL_SOAK"

const (
	soakRounds  = 3000
	shortRounds = 12
	// settleLimit bounds how long closing may take after the last call; it is longer than HTTP keeps idle connections.
	settleLimit = 45 * time.Second
	// maxGrowth is by how many bytes live memory may grow after the first quarter of the rounds.
	maxGrowth = 4 << 20
)

// Connections are made and closed over and over, over each transport; servers crash, calls are cancelled and cut off. Afterwards
// no child is left, goroutines and descriptors are no more than after the first quarter, and memory grew by maxGrowth at most.
func TestNothingGrows(t *testing.T) {
	rounds := shortRounds
	if os.Getenv(soakVariable) != "" {
		rounds = soakRounds
	}
	web := httptest.NewServer(server.NewStreamableHTTPServer(infoServer()))
	t.Cleanup(web.Close)
	child := mcptest.Stdio(mcptest.Good)
	config := writeConfig(t, map[string]any{"mcpServers": map[string]any{
		"stdio": map[string]any{"command": child.Command, "env": child.Env, "isolation": "task"},
		"web":   map[string]any{"url": web.URL + "/mcp", "isolation": "task"},
		"bad":   map[string]any{"command": child.Command, "env": mcptest.Stdio(mcptest.Exit).Env, "isolation": "task"},
	}})
	s := start(t, Config{MCPConfigs: []string{config}, BreakAfter: 1 << 30})
	begin := rounds / 4
	var before footprint
	for i := range rounds {
		if i == begin {
			before = s.measure(t, footprint{goroutines: math.MaxInt, files: math.MaxInt})
		}
		if i%10 == 0 { // not each round: it is retried, with pauses
			s.callExiting(t, "task-"+strconv.Itoa(i))
		}
		s.round(t, "task-"+strconv.Itoa(i))
	}
	after := s.measure(t, before)
	t.Logf("after %d rounds %+v, after %d %+v", begin, before, rounds, after)
	if after.children > 0 {
		t.Errorf("%d children are left", after.children)
	}
	if after.memory > before.memory+maxGrowth {
		t.Errorf("memory grew from %d to %d KiB", before.memory>>10, after.memory>>10)
	}
}

// infoServer is an MCP server with the tool info.
func infoServer() *server.MCPServer {
	s := server.NewMCPServer("web", "1.0", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("info"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("here"), nil
	})
	return s
}

// callExiting calls a server that ends at once.
func (s *suite) callExiting(t *testing.T, task string) {
	t.Helper()
	if o := invoke(t, s.as("ann"), &mcppoolv1.CallToolRequest{McpId: "bad", Name: "info", SessionId: task}); o.err == nil {
		t.Fatal("a server that ends at once answers")
	}
}

// round makes the calls of a task, ends some of them badly, and releases its session.
func (s *suite) round(t *testing.T, task string) {
	t.Helper()
	ann := s.as("ann")
	call := func(server, tool string) reply {
		return invoke(t, ann, &mcppoolv1.CallToolRequest{McpId: server, Name: tool, SessionId: task, CallId: task + server + tool})
	}
	for _, server := range []string{"stdio", "web"} {
		if o := call(server, "info"); o.err != nil {
			t.Fatalf("%s, %s: %v", task, server, o.err)
		}
	}
	// One call is cancelled, one caller goes away, and one server crashes.
	waiting := make(chan reply, 1)
	go func() {
		waiting <- invokeCtx(t.Context(), ann, &mcppoolv1.CallToolRequest{McpId: "stdio", Name: "wait", SessionId: task, CallId: task + "wait"})
	}()
	for s.calls.Followers("ann", task+"wait") == 0 && s.calls.Load().Running == 0 {
		runtime.Gosched()
	}
	if err := cancelCall(t, ann, task+"wait"); err != nil {
		t.Fatal(err)
	}
	<-waiting
	gone, cancel := context.WithCancel(t.Context())
	stream, err := ann.CallTool(gone, &mcppoolv1.CallToolRequest{McpId: "stdio", Name: "hang", SessionId: task})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil { // the tool logs that it runs
		t.Fatal(err)
	}
	cancel()
	_, _ = stream.Recv()
	if o := call("stdio", "crash"); o.err == nil {
		t.Fatal("a server that crashed answered")
	}
	if o := call("stdio", "echo"); o.reason() != "INVALID_TOOL_INPUT" { // by a new process
		t.Fatalf("after a crash: %v", o.err)
	}
	var acks []string
	for _, name := range []string{"stdioinfo", "webinfo", "wait", "stdiocrash", "stdioecho"} {
		acks = append(acks, task+name)
	}
	if _, err := ann.ReleaseSession(t.Context(), &mcppoolv1.ReleaseSessionRequest{SessionId: task, AckCallIds: acks}); err != nil {
		t.Fatal(err)
	}
}

// footprint is what this process uses.
type footprint struct {
	goroutines, files, children int
	memory                      uint64 // bytes
}

// measure waits until no connection or call is left and goroutines and files are stable and at most those of most. It returns the
// footprint then.
func (s *suite) measure(t *testing.T, most footprint) (now footprint) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for same := 0; same < 5; {
		before := now
		l := s.pool.Load()
		now = footprint{goroutines: runtime.NumGoroutine(), files: files(t)}
		if l.Used+l.States["closing"]+s.calls.Load().Running == 0 && now == before && now.goroutines <= most.goroutines && now.files <= most.files {
			same++
		} else {
			same = 0
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatalf("want at most %+v and no connection or call: %+v, connections %+v", most, now, l.States)
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now.memory, now.children = m.HeapAlloc+m.StackInuse, children(t)
	return now
}

// files counts this process's open descriptors; 0 outside Linux.
func files(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// children counts the processes that this one has started and not reaped; 0 without /proc.
func children(t *testing.T) (n int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var state string
		var parent int
		_, behind, _ := strings.Cut(string(raw), ") ")
		if _, err := fmt.Sscan(behind, &state, &parent); err == nil && parent == os.Getpid() {
			n++
		}
	}
	return n
}
