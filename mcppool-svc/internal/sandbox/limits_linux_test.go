package sandbox

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	roles["pair"] = func([]string) error {
		_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		return err
	}
}

// D12: a program that takes too much is killed, with all that it started, and the result tells why.
func TestLimits(t *testing.T) {
	// The last command of a shell replaces it and frees its memory, hence the colons.
	tests := map[string]struct {
		script string
		limit  func(*Command)
		want   string // in Stopped, or in the output
	}{
		"memory":                   {`x=$(head -c 200m /dev/zero | tr '\0' x); sleep 60; :`, func(c *Command) { c.MaxMemory = 100 << 20 }, "more than 100 MiB of memory"},
		"memory of several":        {`for i in 1 2 3 4; do (x=$(head -c 40m /dev/zero | tr '\0' x); sleep 60; :) & done; wait`, func(c *Command) { c.MaxMemory = 100 << 20 }, "more than 100 MiB of memory"},
		"processes":                {`for i in $(seq 40); do sleep 60 & done; wait`, func(c *Command) { c.MaxProcesses = 30 }, "more than 30 processes"},
		"processes beside a group": {`for i in $(seq 40); do setsid sleep 60 & done; wait`, func(c *Command) { c.MaxProcesses = 30 }, "more than 30 processes"},
		"a file":                   {`head -c 3m /dev/zero > f; wc -c < f`, func(c *Command) { c.MaxFileSize = 1 << 20 }, "1048576"},
		"nothing":                  {`for i in 1 2 3; do sleep 0.4 & done; wait; head -c 3m /dev/zero > f; echo end`, func(*Command) {}, "end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shell(t.TempDir(), tt.script)
			tt.limit(&c)
			start := time.Now()
			exit, out := runs(t, c)
			if !strings.Contains(exit.Stopped+out, tt.want) || (exit.Stopped != "") != (exit.Signal == "SIGKILL") || time.Since(start) > 30*time.Second {
				t.Errorf("%+v, %q", exit, out)
			}
		})
	}
}

// The kernel kills programs before the pool if memory runs out, and bounds the processes of users other than root, who start them faster than they
// are counted.
func TestKernelLimits(t *testing.T) {
	c := shell(t.TempDir(), "cat /proc/self/oom_score_adj; ulimit -u; ulimit -f; ulimit -c")
	c.Args[0], c.Path = "bash", "/bin/bash"
	if _, err := os.Stat(c.Path); err != nil {
		t.Skip(err)
	}
	c.MaxProcesses, c.MaxFileSize = 100, 1<<20
	exit, out := runs(t, c)
	lines := strings.Fields(out)
	if exit.Code != 0 || len(lines) != 4 || lines[0] != "1000" || len(lines[1]) < 3 || len(lines[1]) > 6 || lines[2] != "1024" || lines[3] != "0" {
		t.Errorf("%+v, %q", exit, out)
	}
}

// D12: a program makes no UNIX sockets that could reach other programs, where Landlock does not refuse to connect them.
func TestUnixSockets(t *testing.T) {
	requireLandlock(t, 6)
	path := filepath.Join(t.TempDir(), "socket")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if exit, out := runs(t, self(t, "dial", "unix", path)); architecture != 0 && exit.Code == 0 {
		t.Errorf("reached: %s", out)
	}
	if exit, out := runs(t, self(t, "pair")); exit.Code != 0 {
		t.Errorf("a pair of sockets: %s", out)
	}
	c := self(t, "dial", "unix", path)
	c.Network = true
	if exit, out := runs(t, c); (exit.Code == 0) != strings.Contains(Describe(true), "sockets in the file system") {
		t.Errorf("with Network: %+v, %s", exit, out)
	}
}
