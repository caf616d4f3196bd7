package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/test/rig"
)

// resultsVariable makes this test binary the MCP server of TestLargeResults.
const resultsVariable = "PAWL_LOAD_RESULTS"

// serveResults serves the tool text, which writes a file, waits until the file `go` is beside it, and returns a text of so many bytes.
func serveResults() error {
	s := server.NewMCPServer("results", "1.0.0", server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("text", mcp.WithString("file", mcp.Required()), mcp.WithNumber("bytes", mcp.Required())),
		func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			file := req.GetString("file", "")
			text := resultText(file, req.GetInt("bytes", 0))
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return nil, err
			}
			look := time.NewTicker(5 * time.Millisecond)
			defer look.Stop()
			for {
				if _, err := os.Stat(filepath.Join(filepath.Dir(file), "go")); err == nil {
					return mcp.NewToolResultText(text), nil
				}
				select {
				case <-look.C:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
		})
	return server.ServeStdio(s)
}

// resultText returns lines that JSON has to escape. Each file has its own text.
func resultText(file string, bytes int) string {
	line := fmt.Sprintf("a line of %q, which differs from file to file\n", filepath.Base(file))
	return strings.Repeat(line, bytes/len(line)+1)[:bytes]
}

const (
	// fewResults bounds the anonymous memory of `pawl up` while one result of 8 MB arrives, and manyResults while 20 of 16 MiB do.
	fewResults, manyResults = 128 << 20, 512 << 20
	// containerLimit is 80 % of a container with 1 GiB.
	containerLimit = "820MiB"
	// resultsTime bounds a case of TestLargeResults, also on a slow machine.
	resultsTime = 6 * time.Minute
)

// Issue 13, bounded under hostile load: 20 results of 16 MiB that arrive at once stay within the budget, and the memory returns. DESIGN 11: a large
// output costs a small multiple of its size.
func TestLargeResults(t *testing.T) {
	t.Setenv("GOMEMLIMIT", containerLimit)
	for _, tt := range []struct {
		name         string
		tasks, bytes int
		most         uint64
	}{
		{"one of 8 MB", 1, 8_000_000, fewResults},
		{"20 of 16 MiB", 20, 16<<20 - 100, manyResults},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t, rig.Options{MaxRunning: tt.tasks, Servers: map[string]any{"results": map[string]any{
				"command": os.Args[0], "env": map[string]string{resultsVariable: "1"}, "isolation": "task", "timeout": resultsTime.String(),
				"tools": map[string]any{"text": map[string]any{"effect": "read"}},
			}}})
			ctx, cancel := context.WithTimeout(t.Context(), resultsTime)
			defer cancel()
			users := []rig.Client{rig.NewGRPC(rig.Dial(t, s.grpc, s.ann)), s.neighbour[0]}
			dir := t.TempDir()
			ids := make([]string, tt.tasks)
			for n := range ids {
				ids[n] = createResult(ctx, t, users[n%2], filepath.Join(dir, fmt.Sprint("call", n)), tt.bytes)
			}
			for started := 0; started < tt.tasks; <-time.After(sampleEvery) {
				files, err := os.ReadDir(dir)
				if started = len(files); err != nil || ctx.Err() != nil {
					t.Fatalf("%d calls have begun: %v, %v", started, err, ctx.Err())
				}
			}
			before, peaked, begun := s.memory(t), make(chan uint64, 1), time.Now()
			attack, end := context.WithCancel(ctx)
			go func() { peaked <- s.highest(attack, t) }()
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			all, calls := errgroup.WithContext(ctx)
			for n, id := range ids {
				all.Go(func() error { return readResult(calls, users[n%2], id, tt.bytes) })
			}
			if err := all.Wait(); err != nil {
				t.Error(err)
			}
			end()
			peak, after, ended := <-peaked, s.memory(t), time.Now()
			for n := 0; after > settled && time.Since(ended) < settleTime; n++ {
				s.serve(t, n)
				after = s.memory(t)
			}
			t.Logf("%d MB before, at most %d in %.1f s, %d after %.1f s more", before>>20, peak>>20, ended.Sub(begun).Seconds(), after>>20, time.Since(ended).Seconds())
			if peak > tt.most || after > settled {
				t.Errorf("the memory was %d MB before, at most %d, and %d after; want at most %d and %d", before>>20, peak>>20, after>>20, tt.most>>20, settled>>20)
			}
		})
	}
}

// createResult creates a task that calls the tool text.
func createResult(ctx context.Context, t *testing.T, client rig.Client, file string, bytes int) (id string) {
	t.Helper()
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{
		Goal: "much", McpIds: []string{"results"}, AutoExecute: proto.Bool(true),
		Playbook: fmt.Sprintf("steps: [{tool: results/text, input: {file: %q, bytes: %d}}]\nanswer: done\n", file, bytes),
	})
	if err != nil {
		t.Fatal(err)
	}
	return task.GetId()
}

// readResult follows a task to its end, and checks that its events have the whole output.
func readResult(ctx context.Context, client rig.Client, id string, bytes int) error {
	read, problem := 0, ""
	err := client.Watch(ctx, id, 0, func(e *executorv1.ExecutorEvent) bool {
		read += len(e.GetStepOutput().GetOutputJson())
		problem += e.GetStepError().GetError().GetErrMsg()
		return true
	})
	if err == nil && read < bytes {
		err = fmt.Errorf("the output has %d bytes; %s", read, problem)
	}
	return err
}
