package process

import (
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// report is a script that prints the open descriptors of its shell, its environment, user, groups and controlling terminal.
const report = `for f in /proc/$$/fd/*; do [ -e "$f" ] && echo "fd ${f##*/}"; done; tr '\0' '\n' </proc/$$/environ | sed 's/^/env /'
awk '/^(Uid|Gid|Groups):/ {$1 = tolower($1); print}' /proc/$$/status
awk '{print "terminal", $7}' /proc/$$/stat`

func output(t *testing.T, spec Spec) []string {
	t.Helper()
	p := launch(t, spec)
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if text := p.Stderr(1000); text != "" {
		t.Error(text)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func with(lines []string, prefix string) string {
	var kept []string
	for _, l := range lines {
		if rest, ok := strings.CutPrefix(l, prefix); ok {
			kept = append(kept, strings.TrimSpace(rest))
		}
	}
	return strings.Join(kept, " ")
}

// A child gets its three streams and a chosen environment, and no terminal: no listener, lock file or descriptor that the pool itself inherited, and no
// key (issue 13).
func TestChildrenInheritNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	journal, err := os.Create(t.TempDir() + "/journal")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = journal.Close() }()
	inherited, err := syscall.Dup(int(journal.Fd())) // without close-on-exec, as from a shell or a service manager
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(inherited) }()
	for _, name := range []string{"PAWL_KEY", "PAWL_SERVICE_KEY", "PAWL_TOKEN_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PAWL_POSTGRES", "DATABASE_URL", "LD_PRELOAD_X"} {
		t.Setenv(name, "secret")
	}
	t.Setenv("LC_TIME", "C")
	spec := sh(report)
	spec.Env = Environ(os.Environ(), map[string]string{"OWN": "1"}, nil)
	got := output(t, spec)
	if diff := cmp.Diff("0 1 2", with(got, "fd ")); diff != "" {
		t.Errorf("descriptors: %s", diff)
	}
	if env := with(got, "env "); strings.Contains(env, "secret") || !strings.Contains(env, "OWN=1") || !strings.Contains(env, "LC_TIME=C") {
		t.Errorf("environment: %s", env)
	}
	if diff := cmp.Diff("0", with(got, "terminal ")); diff != "" {
		t.Errorf("the child has a terminal: %s", diff)
	}
}

// A child has no terminal, whether the pool has one or not (issue 13).
func TestTerminalIsNotInherited(t *testing.T) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = person.Close() }()
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	for _, terminal := range []bool{true, false} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildrenInheritNothing$")
		cmd.Stdin, cmd.SysProcAttr = program, &syscall.SysProcAttr{Setsid: true, Setctty: terminal}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with a terminal: %v: %v\n%s", terminal, err, out)
		}
	}
}

// A child of another user has that user's ids, groups and home folder, and nothing of the pool's user.
func TestChildOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can start programs as another user")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"nobody", u.Uid} {
		account, err := FindAccount(name)
		if err != nil {
			t.Fatal(err)
		}
		spec := sh(report)
		spec.Dir, spec.Account = "/", account
		spec.Env = Environ(append(os.Environ(), "HOME=/root", "USER=root", "TMPDIR=/root/tmp"), map[string]string{"OWN": "1", "LOGNAME": "mine"}, account)
		got := output(t, spec)
		ids := strings.Repeat(u.Uid+" ", 4)
		if diff := cmp.Diff([]string{ids[:len(ids)-1], strings.Join(groups, " ")}, []string{with(got, "uid:"), with(got, "groups:")}); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		env := " " + with(got, "env ") + " "
		for _, want := range []string{" HOME=" + u.HomeDir + " ", " USER=nobody ", " LOGNAME=mine ", " OWN=1 "} {
			if !strings.Contains(env, want) {
				t.Errorf("%s: no%sin the environment%s", name, want, env)
			}
		}
		if strings.Contains(env, "TMPDIR") || strings.Contains(env, "=/root") {
			t.Errorf("%s: the environment of the pool's user: %s", name, env)
		}
	}
}

// The child of another user is ended like any other, and an account that cannot be used is an error that tells what to do.
func TestAccounts(t *testing.T) {
	if a, err := FindAccount(""); a != nil || err != nil {
		t.Errorf("no user: %v, %v", a, err)
	}
	for _, name := range []string{"no-such-user-here", "4294967294"} {
		if _, err := FindAccount(name); err == nil || !strings.Contains(err.Error(), "correct `user`") {
			t.Errorf("%s: %v", name, err)
		}
	}
	own, err := FindAccount(strconv.Itoa(os.Getuid()))
	if err != nil {
		t.Skip(err) // the test's user has no entry
	}
	spec := sh("read line")
	spec.Account = own
	launch(t, spec).Close() // needs no privileges
	if os.Getuid() != 0 {
		spec.Account = &Account{name: "root"}
		l := NewLauncher()
		defer l.Close()
		if _, err := l.Start(spec); err == nil || !strings.Contains(err.Error(), "CAP_SETUID") {
			t.Errorf("without privileges: %v", err)
		}
		return
	}
	other, err := FindAccount("nobody")
	if err != nil {
		t.Skip(err)
	}
	spec = sh(`trap "" TERM; while :; do sleep 1; done`)
	spec.Account, spec.Dir = other, "/"
	p := launch(t, spec)
	p.Close()
	if left := groupOf(t, p.PID()); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	spec.Limits = Limits{Files: 100}
	l := NewLauncher()
	defer l.Close()
	if p, err := l.Start(spec); err == nil {
		p.Close()
	} else if !strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
		t.Errorf("with limits: %v", err)
	}
}
