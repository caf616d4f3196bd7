package discover_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pawl.dev/cmd/internal/discover"
)

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	want := discover.ServerInfo{PID: 7, GRPC: "127.0.0.1:1", HTTP: "127.0.0.1:2", Version: "v", Started: time.Unix(5, 0).UTC(), Workspace: "/w"}
	if err := discover.WriteServerFile(dir, want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, discover.ReadServerFile(dir)); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, "server.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 {
		t.Errorf("files: %v", left)
	}
}

func TestRemoveServerFileOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	if err := discover.WriteServerFile(dir, discover.ServerInfo{PID: 7, GRPC: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := discover.RemoveServerFile(dir, 8); err != nil || discover.ReadServerFile(dir) == nil {
		t.Errorf("another process's note: %v", err)
	}
	if err := discover.RemoveServerFile(dir, 7); err != nil || discover.ReadServerFile(dir) != nil {
		t.Errorf("its own note: %v", err)
	}
	if err := discover.RemoveServerFile(dir, 7); err != nil {
		t.Errorf("no note: %v", err)
	}
}

func TestInvalidServerFileIsIgnored(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"pid":0,"grpc":"x"}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if info := discover.ReadServerFile(dir); info != nil {
			t.Errorf("%q: %+v", text, info)
		}
	}
	if err := discover.WriteServerFile(filepath.Join(t.TempDir(), "missing"), discover.ServerInfo{}); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func TestAlive(t *testing.T) {
	if !discover.Alive(os.Getpid()) {
		t.Error("this process is dead")
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	if discover.Alive(cmd.Process.Pid) {
		t.Error("a process that has ended is alive")
	}
}
