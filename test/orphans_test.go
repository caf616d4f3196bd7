package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/test/rig"
)

// A killed pool leaves no process of its servers behind: started directly or, as npx does, by another process, and even if a timer
// would keep the server running without a client.
func TestKilledPoolLeavesNoChildren(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are told by their environment, in /proc")
	}
	bin := rig.NPM(t, ".", ".bin")
	mark := "PAWL_TEST_MARK=" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	everything := filepath.Join(bin, "mcp-server-everything")
	server := func(command string, args ...string) map[string]any {
		name, value, _ := bytes.Cut([]byte(mark), []byte("="))
		return map[string]any{"command": command, "args": args, "env": map[string]string{string(name): string(value)}}
	}
	addr := rig.FreeAddr(t)
	p := rig.Start(t, binaries.Pool, "--grpc", addr, "--data", t.TempDir(), "--mcp-config", rig.MCPConfig(t, rig.Options{Servers: map[string]any{
		"direct": server(everything, "stdio"), "wrapped": server("sh", "-c", `"$0" stdio; true`, everything),
		"memory": server(filepath.Join(bin, "mcp-server-memory")),
	}}))
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	awaitPort(ctx, t, addr)
	pool := mcppoolv1.NewMcpPoolServiceClient(rig.Dial(t, addr, ""))
	for _, id := range []string{"direct", "wrapped"} {
		v := &visitor{pool: pool, id: id}
		u := use{tool: "toggle-simulated-logging", wants: []string{"Started"}}
		u.judge(t, v.use(ctx, u))
	}
	(&visitor{pool: pool, id: "memory"}).tools(t)
	if n := len(marked(t, mark)); n != 4 {
		t.Fatalf("%d processes run, want 4: two servers, and a shell with another", n)
	}
	p.Kill()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(marked(t, mark)) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("these go on: %q", marked(t, mark))
		}
	}
}

// marked are the command lines of all processes with a variable in their environment.
func marked(t *testing.T, variable string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+variable+"\x00")) {
			continue // gone, or not of this test
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		found = append(found, string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	}
	return found
}
