package process

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// poolVariable makes the test binary a pool that starts one child as the named user, says its pid, and waits to be killed.
const poolVariable = "PAWL_TEST_POOL"

func TestMain(m *testing.M) {
	mcptest.Main()
	if name := os.Getenv(poolVariable); name != "" {
		l := NewLauncher()
		account, err := FindAccount(name)
		if err != nil {
			panic(err)
		}
		p, err := l.Start(Spec{Command: "sleep", Args: []string{"600"}, Env: os.Environ(), Dir: "/", Account: account})
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
		select {}
	}
	goleak.VerifyTestMain(m)
}

func launch(t *testing.T, spec Spec) *Process {
	t.Helper()
	l := NewLauncher()
	t.Cleanup(l.Close)
	p, err := l.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func sh(script string) Spec {
	return Spec{Command: "sh", Args: []string{"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

func TestProcessPassesStreamsAndStatus(t *testing.T) {
	p := launch(t, sh(`read line; echo "got $line"; echo "bad luck" >&2; exit 3`))
	if _, err := io.WriteString(p.Stdin, "hello\n"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	got := []string{string(out), p.Stderr(100), p.Status()}
	if diff := cmp.Diff([]string{"got hello\n", "bad luck", "exit status 3"}, got); diff != "" {
		t.Error(diff)
	}
}

// The child's status shows how far Close had to go. Close waits before each further step.
func TestCloseIsBoundedAndEndsTheGroup(t *testing.T) {
	tests := []struct {
		name, script string
		atLeast      time.Duration
		status       string
	}{
		{"reads its stdin", `cat >/dev/null`, 0, "exit status 0"},
		{"needs SIGTERM", `sleep 600 & sleep 600`, termAfter, "signal: terminated"},
		{"ignores SIGTERM, and so does its child", `trap "" TERM HUP; sh -c 'trap "" TERM; while :; do sleep 1; done' & while :; do sleep 1; done`, killAfter, "signal: killed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := launch(t, sh("echo $$; "+tt.script))
			if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			p.Close()
			took := time.Since(start)
			<-p.Exited()
			if got := p.Status(); got != tt.status || took < tt.atLeast {
				t.Errorf("Close took %v, and the child ended with %q; want at least %v and %q", took, got, tt.atLeast, tt.status)
			}
			if members := groupOf(t, p.PID()); len(members) > 0 {
				t.Errorf("processes left in the group: %v", members)
			}
		})
	}
}

// groupOf lists the living processes of a group, from /proc.
func groupOf(t *testing.T, pgid int) []string {
	t.Helper()
	var left []string
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // gone meanwhile
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if len(f) > 2 && f[2] == strconv.Itoa(pgid) && f[0] != "Z" {
			left = append(left, string(b))
		}
	}
	return left
}

func TestGrandchildThatKeepsStdoutDoesNotHoldThePipe(t *testing.T) {
	p := launch(t, sh(`setsid sh -c 'echo $$; exec sleep 600' & read line`))
	stdout := bufio.NewReader(p.Stdout)
	line, err := stdout.ReadString('\n') // by the grandchild, which has left the group
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin, "end\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(stdout); err != nil && !strings.Contains(err.Error(), "closed") {
		t.Fatal(err)
	}
	if mcptest.Gone(grandchild, 0) {
		t.Error("stdout was open until the grandchild ended")
	}
	if err := syscall.Kill(grandchild, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A pool that is killed takes its children with it (DESIGN 6), also those of another user.
func TestChildrenDieWithThePool(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	users := []string{strconv.Itoa(os.Getuid())}
	if other, err := FindAccount("nobody"); err == nil && other != nil && os.Getuid() == 0 {
		users = append(users, "nobody")
	}
	for _, name := range users {
		pool := exec.Command(self)
		pool.Env = append(os.Environ(), poolVariable+"="+name)
		out, err := pool.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if err := pool.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = pool.Wait() // killed, as intended
		if !mcptest.Gone(pid, 5*time.Second) {
			t.Errorf("the child of user %s outlived the pool", name)
		}
	}
}

// A child and the processes that it starts are limited, and write no core files.
func TestLimits(t *testing.T) {
	if !LimitsWork {
		t.Skip("limits are for Linux")
	}
	spec := sh(`read go; ulimit -c; sh -c 'ulimit -n; ulimit -d'; head -c 200000000 /dev/zero | tail -c 200000000 | wc -c`)
	spec.Limits = Limits{Memory: 64 << 20, Files: 77}
	p := launch(t, spec)
	if _, err := io.WriteString(p.Stdin, "go\n"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("0\n77\n65536\n0\n", string(out)); diff != "" {
		t.Errorf("%s; stderr: %s", diff, p.Stderr(1000))
	}
}

func TestStderrKeepsTheEnd(t *testing.T) {
	p := launch(t, sh(`i=0; while [ $i -lt 3000 ]; do echo "line $i of the log, which is rather long" >&2; i=$((i+1)); done`))
	<-p.Exited()
	if n := len(p.stderr.String()); n != stderrLimit {
		t.Errorf("kept %d bytes, want %d", n, stderrLimit)
	}
	tail := p.Stderr(60)
	if !strings.HasSuffix(tail, "line 2999 of the log, which is rather long") || !strings.HasPrefix(tail, "…") {
		t.Errorf("tail = %q", tail)
	}
}

func TestStartErrorsSayWhatToDo(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := NewLauncher()
	defer l.Close()
	tests := []struct {
		name string
		spec Spec
		want string
	}{
		{"not in PATH", Spec{Command: "no-such-program-here", Env: []string{"PATH=/usr/bin:/bin"}}, "was not found in PATH; install it"},
		{"another PATH than ours", Spec{Command: "sh", Env: []string{"PATH=" + dir}}, "was not found in PATH"},
		{"no such file", Spec{Command: filepath.Join(dir, "none")}, "does not exist; correct `command`"},
		{"not executable", Spec{Command: plain}, "chmod +x"},
		{"a folder", Spec{Command: dir}, "is a directory; correct `command`"},
		{"no such folder", Spec{Command: "sh", Dir: filepath.Join(dir, "none"), Env: []string{"PATH=/usr/bin:/bin"}}, "correct `cwd`"},
		{"folder is a file", Spec{Command: "sh", Dir: plain, Env: []string{"PATH=/usr/bin:/bin"}}, "is not a folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.Start(tt.spec)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestEnvironIsAnAllowlist(t *testing.T) {
	base := []string{"PATH=/bin", "HOME=/root", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=x", "PAWL_KEY=y", "TERM=xterm"}
	got := Environ(base, map[string]string{"TERM": "dumb", "OWN": "1"}, nil)
	want := []string{"HOME=/root", "LC_ALL=C", "OWN=1", "PATH=/bin", "TERM=dumb"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if v, ok := Getenv([]string{"A=1", "A=2"}, "A"); v != "2" || !ok {
		t.Errorf("Getenv = %q, %v", v, ok)
	}
	if slices.Contains(got, "PAWL_KEY=y") {
		t.Error("the pool's own key was inherited")
	}
}

func TestClosedLauncherRefuses(t *testing.T) {
	l := NewLauncher()
	l.Close()
	l.Close()
	if _, err := l.Start(sh("true")); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error = %v", err)
	}
}
