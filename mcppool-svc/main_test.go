package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"

	"pawl.dev/services/serve"
)

// mainVariable makes the test binary the program itself.
const mainVariable = "PAWL_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	return cmd
}

func TestServesUntilTerminated(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("ratchet"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := program(t, "--grpc", "127.0.0.1:0", "--data", t.TempDir(), "--workspace", root)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	var addr string
	for addr == "" && lines.Scan() {
		_, addr, _ = strings.Cut(lines.Text(), "serving gRPC on ")
	}
	conn, err := serve.Dial(addr, "")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := mcppoolv1.NewMcpPoolServiceClient(conn).ListTools(t.Context(), &mcppoolv1.ListToolsRequest{McpId: "workspace"})
	if err != nil || len(resp.GetTools()) < 5 {
		t.Errorf("tools: %v, %v", resp, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		t.Log(lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestRefusesToStart(t *testing.T) {
	for want, args := range map[string][]string{
		"without API keys": {"--grpc", "0.0.0.0:0"},
		"no such file":     {"--grpc", "127.0.0.1:0", "--mcp-config", filepath.Join(t.TempDir(), "none.json")},
		"unknown flag":     {"--nonsense"},
	} {
		cmd := program(t, args...)
		var out bytes.Buffer
		cmd.Stderr, cmd.Stdout = &out, &out
		err := cmd.Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(out.String(), want) {
			t.Errorf("%v: %v, %s", args, err, out.String())
		}
	}
}
