package test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/test/rig"
)

const linesBook = `
inputs:
  path: {type: string}
  lines: {type: array, items: {type: string}}
steps:
  - {id: write, foreach: "${inputs.lines}", tool: t/append, input: {path: "${inputs.path}", line: "${item}"}}
  - {id: wait, if: size(steps.write.output) == 3, foreach: "[1, 50, 1]", tool: t/slow, input: {steps: "${item}"}}
  - {id: never, if: steps.wait.status == "skipped", tool: t/append, input: {path: "${inputs.path}", line: never}}
  - {id: last, if: size(steps.wait.output) == 3, tool: t/append, input: {path: "${inputs.path}", line: last}}
answer: "Wrote ${inputs.lines} and ${last.message}"
`

// A task that is killed in the middle of a foreach, once while it waits for a person and once in a call, continues with the item that it was
// at: nothing is done twice and nothing is left out.
func TestKillInTheMiddleOfAForeach(t *testing.T) {
	dir, addr, web := t.TempDir(), rig.FreeAddr(t), rig.FreeAddr(t)
	args := []string{"up", "--data", dir, "--grpc", addr, "--http", web, "--mcp-config", rig.MCPConfig(t, rig.Options{})}
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	start := func() *rig.Process {
		p := rig.Start(t, binaries.Pawl, args...)
		awaitPort(ctx, t, addr)
		awaitPort(ctx, t, web)
		return p
	}
	effects := filepath.Join(t.TempDir(), "effects.txt")
	inputs, err := json.Marshal(map[string]any{"path": effects, "lines": []string{"one", "two", "three"}})
	if err != nil {
		t.Fatal(err)
	}
	p := start()
	var client rig.Client = rig.NewGRPC(rig.Dial(t, addr, ""))
	yes := true
	task, err := client.Create(ctx, &executorv1.CreateTaskRequest{AutoExecute: &yes, Playbook: linesBook, InputsJson: string(inputs)})
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	until := func(stop func(*executorv1.ExecutorEvent) bool) *executorv1.ExecutorEvent {
		t.Helper()
		var found *executorv1.ExecutorEvent
		if err := client.Watch(ctx, task.GetId(), last, func(e *executorv1.ExecutorEvent) bool {
			if last = e.GetSeq(); stop(e) {
				found = e
			}
			return found == nil
		}); err != nil {
			t.Fatal(err)
		}
		return found
	}
	asks := func(e *executorv1.ExecutorEvent) bool { return e.GetStepWaitingForStart() != nil }
	approve := func() {
		t.Helper()
		got, err := client.Get(ctx, task.GetId())
		if err != nil || len(got.GetWaits()) != 1 {
			t.Fatalf("%v %v", got, err)
		}
		if _, err := client.Resume(ctx, &executorv1.ResumeTaskRequest{
			Id: task.GetId(), WaitId: got.GetWaits()[0].GetId(), Answer: &executorv1.ResumeTaskRequest_Approve{Approve: &executorv1.Approve{}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	until(asks)
	approve()
	until(asks)
	p.Kill()
	p = start()
	client = rig.REST{Base: "http://" + web}
	approve()
	until(asks)
	approve()
	until(func(e *executorv1.ExecutorEvent) bool { // in the second item: the others report at most their first step
		message := e.GetToolProgress().GetMessage()
		return message != "" && message != "step 1"
	})
	p.Kill()
	start()
	until(asks)
	approve()
	until(func(e *executorv1.ExecutorEvent) bool { return e.GetFlowSuccess() != nil })
	raw, err := os.ReadFile(effects)
	if d := cmp.Diff("one\ntwo\nthree\nlast\n", string(raw)); err != nil || d != "" {
		t.Errorf("%v, effects: %s", err, d)
	}
	steps, err := client.Steps(ctx, task.GetId())
	var tools []string
	for _, s := range steps {
		tools = append(tools, strings.TrimPrefix(s.GetToolId(), "t/")+" "+s.GetStatus().String())
	}
	want := []string{"append", "append", "append", "slow", "slow", "slow", "append"}
	for i := range want {
		want[i] += " STEP_STATUS_SUCCESS"
	}
	if d := cmp.Diff(want, tools); err != nil || d != "" {
		t.Errorf("%v, steps: %s", err, d)
	}
}

// The command line gives inputs, and lists all that is wrong with a playbook.
func TestPlaybooksOnTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good.yaml"), []byte(`
inputs:
  file: {type: string}
  first: {type: integer, default: 1}
steps:
  - {id: read, tool: workspace/read_file, input: {path: "${inputs.file}"}}
  - {id: again, if: inputs.first > 1, tool: workspace/read_file, input: {path: "${inputs.file}"}}
answer: "${read.message} (${inputs.first})"
`))
	write(t, filepath.Join(dir, "bad.yaml"), []byte(`steps:
  - {tool: workspace/read_file, if: "steps.later.status == 'x'", retry: {attempts: 0}}
  - {tool: read_file, foreach: "1 + 1", input: {path: "${inputs.file}"}}
`))
	write(t, filepath.Join(dir, "5"), []byte("five"))
	pawl := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), binaries.Pawl, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "PAWL_DATA="+filepath.Join(dir, "data"))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"--input", "file=5", "--input", "first=2"}, {"--inputs", `{"file":"5","first":2}`}} {
		if out, err := pawl(append([]string{"run", "--auto", "--playbook", "good.yaml"}, args...)...); err != nil || !strings.Contains(out, "five (2)") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	for want, args := range map[string][]string{
		`"file" is missing`:               nil,
		"first: a whole number is wanted": {"--input", "file=5", "--input", "first=x"},
		`has unknown property "fil"`:      {"--input", "file=5", "--input", "fil=5"},
		`"file" is not NAME=VALUE`:        {"--input", "file"},
		"--input and --inputs can't be":   {"--input", "file=5", "--inputs", "{}"},
	} {
		if out, err := pawl(append([]string{"run", "--auto", "--playbook", "good.yaml"}, args...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, lacks %q\n%s", args, err, want, out)
		}
	}
	out, err := pawl("playbook", "check", "good.yaml")
	if err != nil || !strings.Contains(out, "2 steps") || !strings.Contains(out, "workspace/read_file") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = pawl("playbook", "check", "bad.yaml")
	for _, want := range []string{
		"line 2: step 1 refers to steps.later", "line 2: step 1: retry.attempts: must be", "line 3: step 2: tool: must match", "line 3: `foreach`: it must be a list, but is a int",
		"line 3: step 2 refers to ${inputs.file}",
	} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, lacks %q:\n%s", err, want, out)
		}
	}
}
