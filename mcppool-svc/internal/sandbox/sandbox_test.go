package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVariable makes the test binary one of roles: a program to run in the sandbox, or a pool that runs one.
const roleVariable = "PAWL_TEST_ROLE"

var roles = map[string]func(args []string) error{
	"dial": func(args []string) error {
		conn, err := net.DialTimeout(args[0], args[1], 5*time.Second)
		if err == nil {
			_, err = conn.Write([]byte("hello"))
		}
		return err
	},
	"serve": func([]string) error { // a test that serves on the loopback interface, and calls itself
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		conn, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			return err
		}
		return conn.Close()
	},
	"pool": func(args []string) error {
		_, err := Run(context.Background(), shell(args[0], args[1]), os.Stdout)
		return err
	},
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleVariable)]; role != nil {
		if err := role(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// shell returns a command that runs a script in dir, which it may change.
func shell(dir, script string) Command {
	return Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: dir, Write: []string{dir},
		Env: []string{"PATH=/usr/bin:/bin", "TMPDIR=" + dir},
	}
}

// self returns a command that runs the test binary in a role.
func self(t *testing.T, role string, args ...string) Command {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{
		Path: path, Args: append([]string{path}, args...), Dir: "/", Read: []string{path},
		Env: []string{roleVariable + "=" + role, "GORACE=atexit_sleep_ms=0"},
	}
}

func runs(t *testing.T, c Command) (Exit, string) {
	t.Helper()
	var out bytes.Buffer
	exit, err := Run(t.Context(), c, &out)
	if err != nil {
		t.Fatal(err)
	}
	return exit, strings.TrimSpace(out.String())
}

func TestRunReportsHowAProgramEnds(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	tests := map[string]struct {
		script, stdin string
		want          Exit
		output        string
	}{
		"success":            {"echo out; echo err >&2; echo out", "", Exit{}, "out\nerr\nout"},
		"failure":            {"exit 7", "", Exit{Code: 7}, ""},
		"a signal":           {"kill -KILL $$", "", Exit{Code: -1, Signal: "SIGKILL"}, ""},
		"no input":           {"cat; echo end", "", Exit{}, "end"},
		"input":              {"cat", "hello", Exit{}, "hello"},
		"input not read":     {"echo done", long, Exit{}, "done"},
		"long input":         {"wc -c", long, Exit{}, "1048576"},
		"its folder":         {"basename $PWD", "", Exit{}, "work"},
		"its environment":    {"env | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD | sed s,=.*,,", "", Exit{}, "TMPDIR\nPATH"},
		"no files but three": {"ls /proc/self/fd | tr '\\n' ' '", "", Exit{}, "0 1 2 3"}, // 3 is the folder that ls reads
		"children waited":    {"sleep 0 & wait; echo end", "", Exit{}, "end"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "work")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			c := shell(dir, tt.script)
			c.Stdin = tt.stdin
			exit, out := runs(t, c)
			if name == "its environment" {
				lines := strings.Split(out, "\n")
				if len(lines) != 2 {
					t.Errorf("environment %q", lines)
				}
				return
			}
			if exit != tt.want || out != tt.output {
				t.Errorf("%+v, %q; want %+v, %q", exit, out, tt.want, tt.output)
			}
		})
	}
}

func TestRunReportsWhatCannotStart(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("no interpreter"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := map[string]Command{
		"no such file":    {Path: filepath.Join(dir, "none"), Args: []string{"none"}, Dir: dir},
		"not executable":  {Path: "/etc/passwd", Args: []string{"passwd"}, Dir: dir},
		"not a program":   {Path: script, Args: []string{"script"}, Dir: dir, Write: []string{dir}},
		"no such folder":  {Path: "/bin/sh", Args: []string{"sh"}, Dir: filepath.Join(dir, "none")},
		"outside of read": {Path: script, Args: []string{"script"}, Dir: "/"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			exit, err := Run(t.Context(), c, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "run "+c.Args[0]) {
				t.Errorf("%+v, %v; want an error", exit, err)
			}
		})
	}
}

func TestCancelledBeforeItStarts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, shell(t.TempDir(), "exit 0"), io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

// output returns a program's output as it comes.
func output(ctx context.Context, c Command) (lines *io.PipeReader, ended <-chan Exit) {
	r, w := io.Pipe()
	done := make(chan Exit, 1)
	go func() {
		exit, err := Run(ctx, c, w)
		_ = w.CloseWithError(errors.Join(err, io.EOF))
		done <- exit
	}()
	return r, done
}

func TestGraceForAProgramThatStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	lines, ended := output(ctx, shell(t.TempDir(), `trap 'echo stopping; exit 3' TERM; echo ready; mkfifo f; read x < f`))
	buffer := make([]byte, 100)
	n, err := lines.Read(buffer)
	if err != nil || string(buffer[:n]) != "ready\n" {
		t.Fatalf("%q, %v", buffer[:n], err)
	}
	cancel()
	for {
		n, err := lines.Read(buffer)
		if err != nil {
			break
		}
		if strings.Contains(string(buffer[:n]), "stopping") {
			go func() { _, _ = io.Copy(io.Discard, lines) }()
			if exit := <-ended; exit.Code != 3 {
				t.Errorf("exit = %+v", exit)
			}
			return
		}
	}
	t.Error("the program was not told to stop")
}
