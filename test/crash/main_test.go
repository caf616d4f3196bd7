package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// soakVariable, if set, makes the tests try many more points, and kill at random for 20 minutes.
const soakVariable = "PAWL_SOAK"

func soaking() bool { return os.Getenv(soakVariable) != "" }

// built has the programs that all tests use, and their folder. Processes keep their data in data: in memory if the machine has a file system there,
// because a killed process loses nothing that the system has not yet written to the disk.
type built struct {
	dir, data, victim, tool, config string
}

var programs built

// TestMain builds the programs once, and fails if one of their processes is left over.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pawl-crash-")
	code := 1
	if err == nil {
		if programs, err = build(dir); err == nil {
			code = m.Run()
			err = leftovers(dir)
		}
		err = errors.Join(err, os.RemoveAll(dir), os.RemoveAll(programs.data))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(dir string) (built, error) {
	// /proc shows real paths, without symbolic links.
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return built{}, err
	}
	data, err := os.MkdirTemp("/dev/shm", "pawl-crash-")
	if err != nil {
		data = filepath.Join(dir, "data")
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "./victim", "./tool")
	if out, err := cmd.CombinedOutput(); err != nil {
		return built{}, fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	b := built{dir: dir, data: data, victim: filepath.Join(dir, "victim"), tool: filepath.Join(dir, "tool"), config: filepath.Join(dir, "mcp.json")}
	policies := map[string]any{
		"read": map[string]any{"effect": "read"}, "put": map[string]any{"effect": "write", "idempotent": true},
		"write": map[string]any{"effect": "write"}, "wipe": map[string]any{"effect": "destructive"},
	}
	server := map[string]any{"command": b.tool, "tools": policies}
	asking := maps.Clone(server)
	asking["isolation"] = "task"
	raw, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"t": server, "mortal": server, "asking": asking}})
	if err != nil {
		return built{}, err
	}
	return b, os.WriteFile(b.config, raw, 0o600)
}

// leftovers names the processes of programs in a folder that still run. A killed one takes a moment to go.
func leftovers(dir string) error {
	look, enough := time.NewTicker(10*time.Millisecond), time.NewTimer(5*time.Second)
	defer look.Stop()
	defer enough.Stop()
	for {
		left := running(dir)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-enough.C:
			return fmt.Errorf("processes are left over: %s", strings.Join(left, ", "))
		}
	}
}

// running looks through /proc; on a system without one it finds nothing.
func running(dir string) []string {
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return nil
	}
	var left []string
	for _, exe := range exes {
		if target, err := os.Readlink(exe); err == nil && strings.HasPrefix(target, dir+"/") {
			left = append(left, exe+" → "+target)
		}
	}
	return left
}
