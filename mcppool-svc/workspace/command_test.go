package workspace

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"pgregory.net/rapid"

	"pawl.dev/mcppool-svc/internal/mcptest"
)

// shellOptions allow scripts, and changes.
func shellOptions() Options { return Options{Write: true, Commands: []string{"sh", "./*"}} }

func script(text string) args { return args{"argv": []string{"sh", "-c", text}} }

// D12: execute_command returns how a program ended, and what it wrote.
func TestD12ExecuteCommand(t *testing.T) {
	root := tree(t, map[string]string{"sub/a.txt": "a", "sub/run.sh": "#!/bin/sh\necho ran $1\n"})
	must(t, os.Chmod(filepath.Join(root, "sub/run.sh"), 0o755))
	symlink(t, filepath.Join(root, "sub/run.sh"), filepath.Join(root, "link.sh"))
	s := newServer(t, root, shellOptions())
	tests := map[string]struct {
		args   args
		code   int
		output string
	}{
		"success":             {script("echo out; echo err >&2"), 0, "out\nerr\n"},
		"failure":             {script("echo no; exit 3"), 3, "no\n"},
		"a signal":            {script("kill -9 $$"), -1, ""},
		"no input":            {script("cat; echo end"), 0, "end\n"},
		"input":               {args{"argv": []string{"sh", "-c", "cat"}, "stdin": "hello"}, 0, "hello"},
		"no shell":            {args{"argv": []string{"sh", "-c", `printf '%s|' "$@"`, "sh", "$HOME", "a b", "*"}}, 0, "$HOME|a b|*|"},
		"a folder":            {args{"argv": []string{"sh", "-c", "ls"}, "cwd": "sub"}, 0, "a.txt\nrun.sh\n"},
		"a variable":          {args{"argv": []string{"sh", "-c", "echo $X-$TERM"}, "env": args{"X": "1", "TERM": "vt100"}}, 0, "1-vt100\n"},
		"of the workspace":    {args{"argv": []string{"./run.sh", "x"}, "cwd": "sub"}, 0, "ran x\n"},
		"over a link to it":   {args{"argv": []string{"./link.sh", "x"}}, 0, "ran x\n"},
		"not UTF-8":           {script(`printf 'a\377b'`), 0, "a\uFFFDb"},
		"a private home":      {script(`cd && pwd | grep -c pawl-workspace && ls -A && echo x > "$TMPDIR/x"`), 0, "1\n"},
		"writes in the root":  {script("echo new > sub/new && cat sub/new && rm sub/new"), 0, "new\n"},
		"no secrets are kept": {script("echo $PAWL_TEST_SECRET"), 0, "\n"},
	}
	t.Setenv("PAWL_TEST_SECRET", "secret")
	c := inProcess(t, s)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out, text := callText[commandOutput](t, c, "execute_command", tt.args)
			if out.ExitCode != tt.code || out.Output != tt.output || out.TimedOut || out.Truncated != 0 || out.Sandbox == "" {
				t.Errorf("%+v; want %d, %q", out, tt.code, tt.output)
			}
			want := "exit code " + strconv.Itoa(tt.code)
			if tt.code < 0 {
				want = "ended by SIGKILL"
			}
			wantContains(t, text, tt.output, want)
		})
	}
}

func TestExecuteCommandRefuses(t *testing.T) {
	outside := tree(t, map[string]string{"evil.sh": "#!/bin/sh\n"})
	root := tree(t, map[string]string{"a.txt": "a", "sub/": ""})
	symlink(t, outside, filepath.Join(root, "link"))
	symlink(t, "nowhere", filepath.Join(root, "dangling"))
	symlink(t, ".pawl/backups", filepath.Join(root, "old"))
	must(t, os.MkdirAll(filepath.Join(root, ".pawl/backups"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, ".pawl/backups/run.sh"), []byte("#!/bin/sh\n"), 0o700))
	s := newServer(t, root, Options{Commands: []string{"sh", "no-such-program"}})
	own := newServer(t, root, Options{Commands: []string{"./*"}})
	tests := map[string]struct {
		server *Server
		args   args
		want   string
	}{
		"another program":       {s, args{"argv": []string{"env"}}, "allows sh, no-such-program"},
		"by its path":           {s, args{"argv": []string{"/bin/sh"}}, "may not be run"},
		"of the workspace":      {s, args{"argv": []string{"./a.txt"}}, "may not be run"},
		"not installed":         {s, args{"argv": []string{"no-such-program"}}, "was not found in PATH"},
		"no argv":               {s, args{"argv": []string{}}, "argv"},
		"an empty name":         {s, args{"argv": []string{""}}, "may not be run"},
		"NUL":                   {s, args{"argv": []string{"sh", "a\x00b"}}, "argv"},
		"a bad variable":        {s, args{"argv": []string{"sh"}, "env": args{"A=B": "x"}}, "schema"},
		"no such folder":        {s, args{"argv": []string{"sh"}, "cwd": "none"}, "does not exist"},
		"a folder outside":      {s, args{"argv": []string{"sh"}, "cwd": ".."}, "outside the workspace"},
		"a link to the outside": {s, args{"argv": []string{"sh"}, "cwd": "link"}, "leads out of the workspace"},
		"a file as folder":      {s, args{"argv": []string{"sh"}, "cwd": "a.txt"}, "not a directory"},
		"the name as such":      {own, args{"argv": []string{"./*"}}, "does not exist"},
		"a bare name":           {own, args{"argv": []string{"sh"}}, "may not be run"},
		"above the workspace":   {own, args{"argv": []string{"../evil.sh"}}, "outside the workspace"},
		"above it, from a sub":  {own, args{"argv": []string{"../../evil.sh"}, "cwd": "sub"}, "outside the workspace"},
		"over a link":           {own, args{"argv": []string{"link/evil.sh"}}, "outside the workspace"},
		"a link to nothing":     {own, args{"argv": []string{"./dangling"}}, "does not exist"},
		"a link to a backup":    {own, args{"argv": []string{"old/run.sh"}}, "holds backups"},
		"an absolute path":      {own, args{"argv": []string{filepath.Join(outside, "evil.sh")}}, "may not be run"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantContains(t, callError(t, inProcess(t, tt.server), "execute_command", tt.args), tt.want)
		})
	}
	readOnly := newServer(t, root)
	if _, err := inProcess(t, readOnly).CallTool(t.Context(), request("execute_command", script("true"))); err == nil {
		t.Error("execute_command is offered without Commands")
	}
}

// D12: with ./*, a link in the workspace runs a program outside that all programs may run, such as a virtual environment's python, and opens no other.
func TestLinksToPrograms(t *testing.T) {
	root := tree(t, map[string]string{"venv/bin/": ""})
	outside := tree(t, map[string]string{"tool": "#!/bin/sh\necho secret\n"})
	must(t, os.Chmod(filepath.Join(outside, "tool"), 0o755))
	symlink(t, "/bin/sh", filepath.Join(root, "venv/bin/python3"))
	symlink(t, "python3", filepath.Join(root, "venv/bin/python"))
	symlink(t, filepath.Join(outside, "tool"), filepath.Join(root, "tool"))
	c := inProcess(t, newServer(t, root, Options{Commands: []string{"./*"}}))
	out := call[commandOutput](t, c, "execute_command", args{"argv": []string{"./venv/bin/python", "-c", "echo $0"}})
	if out.ExitCode != 0 || out.Output != "./venv/bin/python\n" {
		t.Errorf("%+v", out)
	}
	if !strings.HasPrefix(out.Sandbox, "landlock") {
		t.Skip(out.Sandbox)
	}
	wantContains(t, callError(t, c, "execute_command", args{"argv": []string{"./tool"}}), "permission denied")
}

// D12: programs are confined. The sandbox's own tests try more.
func TestProgramsAreConfined(t *testing.T) {
	root := tree(t, map[string]string{"a.txt": "a"})
	outside := tree(t, map[string]string{"secret": "secret"})
	s := newServer(t, root, shellOptions())
	c := inProcess(t, s)
	out := call[commandOutput](t, c, "execute_command", script("true"))
	if !strings.HasPrefix(out.Sandbox, "landlock") {
		t.Skip(out.Sandbox)
	}
	for name, text := range map[string]string{
		"write": "echo x > " + outside + "/new", "read": "cat " + outside + "/secret", "TCP": "exec 3<>/dev/tcp/127.0.0.1/9 || exit 1",
	} {
		if out := call[commandOutput](t, c, "execute_command", script(text)); out.ExitCode == 0 {
			t.Errorf("%s succeeded: %+v", name, out)
		}
	}
	reading := inProcess(t, newServer(t, root, Options{Commands: []string{"sh"}}))
	if out := call[commandOutput](t, reading, "execute_command", script("cat a.txt; echo x > a.txt")); out.ExitCode == 0 || !strings.HasPrefix(out.Output, "a") {
		t.Errorf("without Write: %+v", out)
	}
	if got := fileText(t, root, "a.txt"); got != "a" {
		t.Errorf("a.txt is now %q", got)
	}
}

// D12: too much output is cut in its middle, and too long a program is stopped.
func TestProgramsAreBounded(t *testing.T) {
	root := tree(t, nil)
	must(t, syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	o := shellOptions()
	patient := inProcess(t, newServer(t, root, o))
	if out := call[commandOutput](t, patient, "execute_command", script("yes | head -c 3000000")); out.TimedOut || out.Truncated < 1<<20 || len(out.Output) > maxHead+maxTail+100 {
		t.Errorf("much output: timed out %v, %d bytes, %d left out", out.TimedOut, len(out.Output), out.Truncated)
	}
	o.CommandTimeout = time.Second
	c := inProcess(t, newServer(t, root, o))
	for name, text := range map[string]string{"a flood": "yes", "a named pipe": "cat fifo", "SIGTERM ignored": "trap '' TERM; while :; do read x < fifo; done"} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			out, text := callText[commandOutput](t, c, "execute_command", script(text))
			if !out.TimedOut || len(out.Output) > maxHead+maxTail+100 || time.Since(start) > 30*time.Second {
				t.Errorf("timed out %v, %d bytes, after %v", out.TimedOut, len(out.Output), time.Since(start))
			}
			wantContains(t, text, "took too long")
		})
	}
}

// D12: a cancelled call leaves no process, on either transport.
func TestCancelledCommandLeavesNothing(t *testing.T) {
	root := tree(t, nil)
	must(t, syscall.Mkfifo(filepath.Join(root, "pids"), 0o600))
	onEachTransport(t, newServer(t, root, shellOptions()), func(t *testing.T, c *client.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, request("execute_command", script(`(setsid sleep 600 & echo $! > pids) & trap "" TERM; wait; sleep 600`)))
			ended <- err
		}()
		line, err := os.ReadFile(filepath.Join(root, "pids")) // blocks until the script writes
		must(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(line)))
		must(t, err)
		cancel()
		<-ended
		if !mcptest.Gone(pid, 10*time.Second) {
			t.Errorf("process %d survived", pid)
		}
	})
}

func TestCommandProgress(t *testing.T) {
	s := newServer(t, tree(t, nil), shellOptions())
	c := overStdio(t, s)
	var messages []string
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		message, _ := n.Params.AdditionalFields["message"].(string)
		messages = append(messages, message)
	})
	req := request("execute_command", script("echo first; echo; yes line | head -c 100000; echo last"))
	req.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	_, err := c.CallTool(t.Context(), req)
	must(t, err)
	// A message may be part of a line: the program's output arrives in pieces.
	if len(messages) == 0 || len(messages) > 4 || messages[0] == "" || !strings.Contains("first line", messages[0]) {
		t.Errorf("messages %q", messages)
	}
}

// What programs leave in their private folder goes with the server.
func TestScratchIsRemoved(t *testing.T) {
	s, err := NewServer(tree(t, nil), shellOptions())
	must(t, err)
	c := inProcess(t, s)
	out := call[commandOutput](t, c, "execute_command", script("mkdir ~/x && echo y > ~/x/y && dirname $HOME"))
	dir := strings.TrimSpace(out.Output)
	if _, err := os.Stat(filepath.Join(dir, "home/x/y")); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
}

// The private folders of killed processes are removed, those of live ones stay.
func TestAbandonedScratchIsRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	live := newServer(t, tree(t, nil), shellOptions())
	kept, err := live.scratch.path()
	must(t, err)
	folder := func(name string, age time.Duration) string {
		dir := filepath.Join(temp, scratchPrefix+name)
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
		must(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-age)))
		return dir
	}
	abandoned, fresh := folder("old", time.Hour), folder("new", 0)
	must(t, os.Chtimes(kept, time.Time{}, time.Now().Add(-time.Hour)))
	_, err = newServer(t, tree(t, nil), shellOptions()).scratch.path()
	must(t, err)
	for dir, want := range map[string]bool{kept: true, fresh: true, abandoned: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// D12: a limit that a program exceeds is told.
func TestLimitsOfPrograms(t *testing.T) {
	o := shellOptions()
	o.MaxProcesses = 20
	c := inProcess(t, newServer(t, tree(t, nil), o))
	out, text := callText[commandOutput](t, c, "execute_command", script("for i in $(seq 30); do sleep 60 & done; wait"))
	if strings.HasPrefix(out.Sandbox, "none: there is no sandbox") {
		t.Skip(out.Sandbox)
	}
	if out.TimedOut || out.Stopped != "it had more than 20 processes and threads" {
		t.Errorf("%+v", out)
	}
	wantContains(t, text, "because it had more than 20")
}

func TestRunnersSayWhatConfinesThem(t *testing.T) {
	s := newServer(t, tree(t, nil), Options{Commands: []string{"sh", "go"}, CommandTimeout: time.Hour})
	listed, err := inProcess(t, s).ListTools(t.Context(), mcp.ListToolsRequest{})
	must(t, err)
	for _, tool := range listed.Tools {
		if tool.Name == "execute_command" {
			wantContains(t, tool.Description, "sandbox here: ", "1h0m0s", "may be run: sh, go.")
			return
		}
	}
	t.Error("execute_command is not offered")
}

// A capture keeps the beginning and the end of any output, however it arrives.
func TestCaptureKeepsBothEnds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(0, 3*(maxHead+maxTail)).Draw(rt, "size")
		all := make([]byte, size)
		for i := range all {
			all[i] = 'a' + byte(i%23)
		}
		var c capture
		for rest := all; len(rest) > 0; {
			n := rapid.IntRange(1, max(1, len(rest))).Draw(rt, "n")
			n = min(n, len(rest))
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		text, omitted := c.text()
		if omitted != int64(max(0, size-maxHead-maxTail)) {
			rt.Fatalf("%d of %d bytes left out", omitted, size)
		}
		if omitted == 0 && text != string(all) {
			rt.Fatal("the text differs")
		}
		if omitted > 0 && (!strings.HasPrefix(text, string(all[:maxHead])+"\n[… ") || !strings.HasSuffix(text, "…]\n"+string(all[size-maxTail:]))) {
			rt.Fatal("the ends differ")
		}
	})
}

func TestLineWriter(t *testing.T) {
	var lines []string
	w := lineWriter{pass: func(line string) { lines = append(lines, line) }}
	_, err := bytes.NewReader([]byte("one\n\ntw\xffo\nrest")).WriteTo(iotest.TruncateWriter(&w, 1<<20))
	must(t, err)
	w.flush()
	if got := strings.Join(lines, "|"); got != "one\n|\n|tw\uFFFDo\n|rest" {
		t.Errorf("lines %q", got)
	}
	_, _ = w.Write(bytes.Repeat([]byte("x"), maxOutputLine+1))
	if len(lines) != 5 {
		t.Error("a long line is not passed on")
	}
}
