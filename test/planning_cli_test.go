package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pawl.dev/test/modelserver/modeltest"
	"pawl.dev/test/rig"
)

// TestModelFirstRun names models without a file, as a first-time user does, with nothing but the providers' variables.
func TestModelFirstRun(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "wheel.txt"), []byte("The pawl holds the wheel."))
	model := modeltest.New(&modeltest.Script{Model: "m", Key: "sk-first", Play: func(r *modeltest.Request) *modeltest.Turn {
		if strings.Contains(strings.Join(r.Texts, "\n"), "The pawl holds") {
			return &modeltest.Turn{Text: "A pawl."}
		}
		return &modeltest.Turn{Calls: []modeltest.Call{{Name: "read_file", Arguments: json.RawMessage(`{"path":"wheel.txt"}`)}}}
	}}, nil)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	sh := newShell(t, server.URL)
	run := func(args ...string) (string, string, error) {
		return sh.pawl(append([]string{"run", "--auto", "--workspace", dir}, args...)...)
	}
	for _, name := range []string{"openai:m", "anthropic:m"} {
		before := len(model.Requests())
		out, errs, err := run("--model", name, "What holds the wheel?")
		if err != nil || !strings.Contains(out, "A pawl.") {
			t.Errorf("%s: %q, %v\n%s", name, out, err, errs)
		}
		if n := len(rejected(t, model)) - before; n != 2 {
			t.Errorf("%s: %d model calls", name, n)
		}
	}
	// A key alone sends nothing anywhere.
	before := len(model.Requests())
	if _, errs, _ := run("How many files are there?"); len(model.Requests()) != before {
		t.Errorf("without a model: %d requests\n%s", len(model.Requests())-before, errs)
	}
	// The error for a wrong name shows how to choose one.
	if _, errs, err := run("--model", "gpt-5", "What holds the wheel?"); err == nil || !strings.Contains(errs, "openai:MODEL") {
		t.Errorf("a wrong name: %v\n%s", err, errs)
	}
}

// shell runs pawl as a user does whose environment names both providers and nothing else.
type shell struct {
	t   *testing.T
	env []string
}

func newShell(t *testing.T, provider string) shell {
	t.Helper()
	return shell{t, append(os.Environ(), "HOME="+t.TempDir(), "PAWL_DATA="+t.TempDir(), "OPENAI_API_KEY=sk-first", "OPENAI_BASE_URL="+provider+"/v1",
		"ANTHROPIC_API_KEY=sk-first", "ANTHROPIC_BASE_URL="+provider)}
}

func (s shell) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.t.Context(), binaries.Pawl, args...)
	cmd.Env = s.env
	return cmd
}

func (s shell) pawl(args ...string) (out, errs string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// expect runs pawl and checks its exit code and texts of both outputs.
func (s shell) expect(code int, out, errs string, args ...string) {
	s.t.Helper()
	gotOut, gotErrs, err := s.pawl(args...)
	if got := codeOf(err); got != code || !strings.Contains(gotOut, out) || !strings.Contains(gotErrs, errs) {
		s.t.Errorf("pawl %s: code %d, want %d with %q and %q\n-- out\n%s-- err\n%s", strings.Join(args, " "), got, code, out, errs, gotOut, gotErrs)
	}
}

// codeOf is the exit code of a program that ran; -1 if it did not.
func codeOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// planningShell is a shell with the server t and a scripted model, which plays the script of each scenario.
func planningShell(t *testing.T) (shell, *stage, *modeltest.Server) {
	t.Helper()
	play := &stage{}
	model := modeltest.New(&modeltest.Script{Model: "m", Key: "sk-first", Play: play.answer}, nil)
	server := httptest.NewServer(model)
	t.Cleanup(server.Close)
	sh := newShell(t, server.URL)
	sh.expect(0, "t is registered and active", "", "mcp", "add", "t", "--start-timeout", "2m", "--effect", "*=read", "--effect", "append=write", "--env", rig.ServerVariable+"=1", "--", os.Args[0])
	return sh, play, model
}

// TestModelThroughTheCLI answers the waits of a task that a model plans by one command after the other, each a process of its own.
func TestModelThroughTheCLI(t *testing.T) {
	sh, play, model := planningShell(t)
	for _, name := range []string{"openai:m", "anthropic:m"} {
		t.Run(name, func(t *testing.T) {
			sh.t = t
			effects := filepath.Join(t.TempDir(), "effects")
			writes := func(r *modeltest.Request) *modeltest.Turn {
				if r.Results > 0 {
					return &modeltest.Turn{Text: "It is written."}
				}
				return &modeltest.Turn{Calls: []modeltest.Call{appendCall("t__append", effects, "once")}}
			}
			play.set(writes, 0, false)
			run := []string{"run", "--no-workspace", "--mcp", "t", "--model", name, "Do it"}
			sh.expect(2, "", "pawl approve ", append(run, "--auto")...)
			sh.expect(0, "It is written.", "", "approve", "last")
			sh.expect(1, "", "waits for nothing", "approve", "last")
			if raw, err := os.ReadFile(effects); string(raw) != "once\n" {
				t.Errorf("%q, %v", raw, err)
			}
			play.set(lacksParams, 0, false)
			sh.expect(2, "", "pawl params ", run...)
			sh.expect(64, "", "c is not asked for; the names are: b", "params", "last", "c=2")
			sh.expect(2, "", "pawl approve ", "params", "last", "b=2")
			sh.expect(0, "Added.", "", "approve", "last")
			play.set(counting(10), 0, false)
			before := len(model.Requests())
			sh.expect(1, "", "model calls", append(run, "--auto", "--max-model-calls", "3")...)
			if n := len(rejected(t, model)) - before; n > 3 {
				t.Errorf("%d model calls", n)
			}
		})
	}
}

// TestFailingModelThroughTheCLI asks a provider that is overloaded as often as the model retries, and no more often than the budget allows.
func TestFailingModelThroughTheCLI(t *testing.T) {
	sh, play, model := planningShell(t)
	play.set(func(*modeltest.Request) *modeltest.Turn { return &modeltest.Turn{Error: 529} }, 0, false)
	for _, name := range []string{"openai:m", "anthropic:m"} {
		run := []string{"run", "--auto", "--no-workspace", "--mcp", "t", "--model", name, "Do it"}
		for _, c := range []struct {
			budget   []string
			requests int
		}{{[]string{"--max-model-calls", "1"}, 1}, {[]string{"--max-model-calls", "2"}, 2}, {nil, 3}} {
			before := len(model.Requests())
			sh.expect(1, "", "HTTP 529", append(run, c.budget...)...)
			if n := len(rejected(t, model)) - before; n != c.requests {
				t.Errorf("%s %v: %d requests, want %d", name, c.budget, n, c.requests)
			}
		}
	}
}

// TestModelCancelledAtTheTerminal ends the request to the provider on Ctrl-C, and the task with it.
func TestModelCancelledAtTheTerminal(t *testing.T) {
	sh, play, model := planningShell(t)
	reached := play.set(nil, 1, true)
	cmd := sh.command("run", "--auto", "--no-workspace", "--mcp", "t", "--model", "openai:m", "Do it")
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if code := codeOf(err); code != 2 || !strings.Contains(said.String(), "⊘ cancelled: interrupted at the terminal") {
		t.Errorf("code %d\n%s", code, said.String())
	}
	if err := model.Wait(t.Context(), func(r []modeltest.Request) bool { return r[0].Left }); err != nil {
		t.Error(err)
	}
	sh.expect(0, "cancelled", "", "show", "last")
}
