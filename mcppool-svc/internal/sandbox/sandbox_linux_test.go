package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// requireLandlock skips a test on kernels without Landlock of the given version.
func requireLandlock(t *testing.T, version int) {
	t.Helper()
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || int(n) < version {
		t.Skipf("Landlock %d is needed; the kernel has %d (%v)", version, int(n), errno)
	}
}

// D12: no writes outside of the folder, and no reads of what may be secret.
func TestFilesAreConfined(t *testing.T) {
	requireLandlock(t, 6)
	base := t.TempDir()
	root, home := filepath.Join(base, "root"), filepath.Join(base, "home")
	for _, dir := range []string{root, filepath.Join(root, "sub"), home} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{
		"write":                      "echo x > ../home/new",
		"write over a link":          "echo x > link/new",
		"append":                     "echo x >> ../home/secret",
		"truncate":                   "truncate -s 0 ../home/secret",
		"delete":                     "rm -f ../home/secret",
		"move out":                   "echo x > mine; mv mine ../home/mine",
		"move in":                    "mv ../home/secret stolen",
		"hard link in":               "ln ../home/secret hard",
		"make a folder":              "mkdir ../home/dir",
		"read":                       "cat ../home/secret",
		"read over a link":           "cat link/secret",
		"list":                       "ls ../home",
		"read by /proc":              "cat /proc/self/cwd/../home/secret",
		"a device":                   "mknod disk b 8 0",
		"write to /proc":             "echo 0 > /proc/self/oom_score_adj",
		"write to /tmp":              "echo x > /tmp/pawl-sandbox-test",
		"memory of a parent":         "cat /proc/$PPID/maps /proc/" + strconv.Itoa(os.Getpid()) + "/environ | grep .",
		"the supervisor's root":      "ls /proc/$PPID/root/",
		"stop the supervisor":        "kill -STOP $PPID",
		"kill the supervisor":        "kill -KILL $PPID",
		"signal the test":            "kill -0 " + strconv.Itoa(os.Getpid()),
		"a mount":                    "mount -t tmpfs none sub",
		"a mount in a new namespace": "unshare -rm mount -t tmpfs none sub",
	}
	for name, script := range refused {
		t.Run(name, func(t *testing.T) {
			exit, out := runs(t, shell(root, script))
			if exit.Code == 0 || exit.Signal != "" {
				t.Errorf("%q succeeded: %+v, %q", script, exit, out)
			}
		})
	}
	if content, err := os.ReadFile(secret); err != nil || string(content) != "secret" {
		t.Errorf("the secret is now %q, %v", content, err)
	}
	if names, err := os.ReadDir(home); err != nil || len(names) != 1 {
		t.Errorf("the home folder has %v, %v", names, err)
	}
	exit, out := runs(t, shell(root, `set -e; echo a > f; mkdir d; mv f d/g; ln d/g h; ln -s d/g s; mkfifo p; rm p; truncate -s 1 h; chmod +x h; echo x > /dev/null
		head -c 1 /dev/urandom > /dev/null; cat s; ls /etc/passwd; rm -r d; echo end`))
	if exit.Code != 0 || !strings.HasSuffix(out, "end") {
		t.Errorf("%+v, %s", exit, out)
	}
	c := shell(root, "cat "+secret+"; echo x > "+secret)
	c.Read = []string{home}
	if exit, out := runs(t, c); exit.Code == 0 || !strings.HasPrefix(out, "secret") {
		t.Errorf("a folder in Read: %+v, %s", exit, out)
	}
	c = shell(root, "echo x > f")
	c.Write, c.Read = nil, []string{root}
	if exit, out := runs(t, c); exit.Code == 0 {
		t.Errorf("a folder in Read alone: %+v, %s", exit, out)
	}
}

// A program cannot run code in its supervisor by its environment.
func TestEnvironmentDoesNotReachTheSupervisor(t *testing.T) {
	c := shell(t.TempDir(), "exit 5")
	c.Env = append(c.Env, "GODEBUG=inittrace=1", "GOGC=nonsense", "GOTRACEBACK=crash", "LD_DEBUG=all")
	var out strings.Builder
	exit, err := Run(t.Context(), c, &out)
	if err != nil || exit.Code != 5 || strings.Contains(out.String(), "init pawl.dev") {
		t.Errorf("%+v, %v, %s", exit, err, out.String())
	}
}

// daemon is a script that starts a process which leaves the session, is an orphan, and ignores SIGTERM, and prints its id.
const daemon = `(setsid sh -c 'trap "" TERM HUP INT; echo $$; exec sleep 600' &) & wait; `

func TestNothingSurvives(t *testing.T) {
	tests := map[string]struct {
		script string
		cancel bool
	}{
		"a daemon, after the program":           {daemon + "sleep 0.2", false},
		"a daemon, after cancel":                {daemon + "sleep 600", true},
		"a program that ignores SIGTERM":        {`trap "" TERM; echo $$; sleep 600; sleep 600`, true},
		"a background job":                      {"sleep 600 & echo $!", false},
		"a stopped child":                       {"sleep 600 & echo $!; kill -STOP $!; sleep 600", true},
		"a program that closed its output":      {daemon + "exec >&- 2>&- sleep 600", true},
		"a chain of orphans that spawn orphans": {`setsid sh -c 'echo $$; while :; do (setsid sleep 600 &); sleep 0.01; done' & sleep 0.2`, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, ended := output(ctx, shell(t.TempDir(), tt.script))
			lines := bufio.NewReader(out)
			line, err := lines.ReadString('\n')
			pid, convErr := strconv.Atoi(strings.TrimSpace(line))
			if err != nil || convErr != nil {
				t.Fatalf("%q, %v", line, err)
			}
			start := time.Now()
			if tt.cancel {
				cancel()
			}
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			<-ended
			if took := time.Since(start); took > grace+drainTime+10*time.Second {
				t.Errorf("it took %v", took)
			}
			if !mcptest.Gone(pid, 0) {
				t.Errorf("process %d survived", pid)
			}
		})
	}
}

// D12: the program ends with the pool, even if the pool is killed.
func TestNothingSurvivesThePool(t *testing.T) {
	c := self(t, "pool", t.TempDir(), daemon+"sleep 600")
	pool := exec.Command(c.Path, c.Args[1:]...)
	pool.Env = c.Env
	out, err := pool.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, convErr := strconv.Atoi(strings.TrimSpace(line))
	if err := pool.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = pool.Wait() // killed, as intended
	if err != nil || convErr != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if !mcptest.Gone(pid, grace+5*time.Second) {
		t.Errorf("process %d outlived the pool", pid)
	}
}

// D12: without Network, the program reaches no network, but its own servers on the loopback interface.
func TestNetworkIsConfined(t *testing.T) {
	if isolation() == nil {
		t.Skip("network namespaces are not permitted here")
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	abstract, err := net.Listen("unix", fmt.Sprintf("@pawl-sandbox-test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	dials := [][]string{{"tcp", lis.Addr().String()}, {"unix", abstract.Addr().String()}}
	for _, dial := range dials {
		if exit, out := runs(t, self(t, "dial", dial...)); exit.Code == 0 {
			t.Errorf("%v was reached: %s", dial, out)
		}
	}
	runs(t, self(t, "dial", "udp", udp.LocalAddr().String()))
	if err := udp.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := udp.ReadFrom(make([]byte, 10)); err == nil {
		t.Errorf("a datagram of %d bytes arrived", n)
	}
	if exit, out := runs(t, self(t, "serve")); exit.Code != 0 {
		t.Errorf("a server of its own was not reached: %s", out)
	}
	c := self(t, "dial", dials[0]...)
	c.Network = true
	if exit, out := runs(t, c); exit.Code != 0 {
		t.Errorf("with Network: %s", out)
	}
}

// Where there are no network namespaces, Landlock refuses TCP.
func TestTCPIsRefusedWithoutANamespace(t *testing.T) {
	requireLandlock(t, 4)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	c := self(t, "dial", "tcp", lis.Addr().String())
	var out strings.Builder
	result, err := startSupervisor(t.Context(), nil, order{Command: c}, c, &out)
	if err != nil || result.Code == 0 || !strings.Contains(out.String(), "permission denied") {
		t.Errorf("%+v, %v, %s", result, err, out.String())
	}
}

func TestASupervisorThatDies(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, w := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		_, err := Run(ctx, shell(t.TempDir(), "echo $$ $PPID; exec sleep 600"), w)
		failed <- err
	}()
	var program, supervisor int
	if _, err := fmt.Fscan(r, &program, &supervisor); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("error = %v", err)
	}
	if !mcptest.Gone(program, 5*time.Second) {
		t.Errorf("process %d survived", program)
	}
}

// No new privileges: neither setuid programs nor what the superuser may do to the system.
func TestPrivileges(t *testing.T) {
	_, out := runs(t, shell(t.TempDir(), "grep -e ^NoNewPrivs -e ^CapEff -e ^CapAmb /proc/self/status"))
	var effective, ambient uint64
	var none int
	if _, err := fmt.Sscanf(out, "CapEff:\t%x\nCapAmb:\t%x\nNoNewPrivs:\t%d", &effective, &ambient, &none); err != nil || none != 1 || ambient != 0 {
		t.Errorf("%s, %v", out, err)
	}
	for _, capability := range []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_SYS_MODULE} {
		if effective&(1<<capability) != 0 {
			t.Errorf("capability %d is effective: %x", capability, effective)
		}
	}
}

func TestDescribe(t *testing.T) {
	requireLandlock(t, 6)
	closed := Describe(false)
	if !strings.HasPrefix(closed, "landlock") {
		t.Error(closed)
	}
	if refused := strings.Contains(closed, "TCP"); refused == (isolation() != nil) {
		t.Error(closed)
	}
	if open := Describe(true); !strings.HasPrefix(open, "landlock") || !strings.Contains(open, "servers on this computer") || strings.Contains(closed, "servers on this computer") {
		t.Errorf("with Network: %s, without: %s", open, closed)
	}
}

// D12: the description tells whether a program can call a server, such as that of a container engine, by its socket in the file system.
func TestSocketsInTheFileSystemAreDescribed(t *testing.T) {
	requireLandlock(t, 6)
	path := filepath.Join(t.TempDir(), "socket")
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	exit, out := runs(t, self(t, "dial", "unix", path))
	if told := strings.Contains(Describe(false), "sockets in the file system"); told != (exit.Code == 0) {
		t.Errorf("exit code %d, %q; the description says %q", exit.Code, out, Describe(false))
	}
}
