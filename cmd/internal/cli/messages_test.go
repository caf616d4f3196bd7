package cli_test

import (
	"strings"
	"testing"
	"unicode"

	"google.golang.org/grpc/codes"
	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	"pawl.dev/services/errs"
)

func TestNoTasksInAState(t *testing.T) {
	w := newWorld(t)
	w.pawl("tasks").expect(t, 0, "", `no tasks; pawl run "what you want" makes one`)
	w.executor.Add("one").Play(clitest.Success("x"))
	got := w.pawl("tasks", "--status", "waiting")
	got.expect(t, 0, "", "no such tasks; pawl tasks lists all")
	if strings.Contains(got.err, "makes one") {
		t.Error(got.err)
	}
}

// The last task is the newest one in all commands. An answer to it never goes to an older task.
func TestLastTaskIsTheNewest(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("Write it").Wait(clitest.ApprovalWait("s1", tool, `{}`, commonv1.RiskLevel_RISK_LEVEL_LOW)).Play(clitest.Stop("s1"))
	w.executor.Add("Look").Play(clitest.Success("seen"))
	_, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_LOW)
	w.pawl("show", "last").expect(t, 0, clitest.ID(2), "")
	for _, command := range []string{"approve", "reject", "params", "input", "outcome"} {
		args := map[string][]string{"params": {"a=b"}, "input": {"--decline"}, "outcome": {"--retry"}}[command]
		w.pawl(append([]string{command, "last", "-d"}, args...)...).expect(t, 1, "",
			"task a0000002 waits for nothing; it is done\n  next: name a task that waits: a0000001 (Write it); pawl show TASK shows its question")
	}
	if len(w.executor.Resumed) > 0 {
		t.Error(w.executor.Resumed)
	}
	for range 6 {
		w.executor.Add("Wait").Wait(clitest.ApprovalWait("s1", tool, `{}`, commonv1.RiskLevel_RISK_LEVEL_LOW)).Play(clitest.Stop("s1"))
	}
	w.executor.Add("Look").Play(clitest.Success("seen"))
	w.pawl("reject", "last").expect(t, 1, "", "a0000004 (Wait), …; pawl show")
	w.pawl("reject", "a0000004", "-d").expect(t, 0, "", "")
}

func TestLastTaskWithoutOneThatWaits(t *testing.T) {
	w := newWorld(t)
	w.pawl("approve", "last").expect(t, 1, "", "there is no task yet")
	w.executor.Add("Look").Play(clitest.Success("seen"))
	w.pawl("approve", "last").expect(t, 1, "", "task a0000001 waits for nothing; it is done")
}

// pawl pause says what it waits for.
func TestPauseSaysWhatItWaitsFor(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("long").Update(func(task *executorv1.Task) {
		task.ActiveSteps = []*executorv1.Step{{ToolId: tool, Status: executorv1.StepStatus_STEP_STATUS_RUNNING}}
	})
	pause := w.start("pause", "last")
	pause.saw("waiting for the running call of " + tool)
	tape.Wait(clitest.PauseWait("")).Play(clitest.StepOutput("s1", tool), clitest.Stop("pause"))
	pause.wait().expect(t, 0, "task a0000001 is paused", "")
}

// pawl run shows why a task makes no progress.
func TestRunSaysWhatItWaitsFor(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
		tape.Update(func(task *executorv1.Task) { task.StatusReason = "the planner cannot be reached: connection refused" })
	}
	run := w.start("run", "look")
	run.saw("the task waits: the planner cannot be reached: connection refused")
	w.pawl("show", "last").expect(t, 0, "the planner cannot be reached", "")
	w.executor.Tape(clitest.ID(1)).Play(clitest.Success("At last."))
	got := run.wait()
	got.expect(t, 0, "At last.", "")
	if n := strings.Count(got.err, "the task waits"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// All problems of a playbook are shown.
func TestAllPlaybookErrors(t *testing.T) {
	w := newWorld(t)
	w.executor.OnAdmit = func() error {
		e := errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_PLAYBOOK, "the playbook cannot be used: line 3: no tool (and 2 more)")
		for _, text := range []string{"line 3: no tool", "line 5: no id", "line 9: what is `foo`?"} {
			e = e.WithViolation("playbook", text)
		}
		return e
	}
	w.pawl("run", "--no-workspace", "x").expect(t, 1, "", "the playbook cannot be used:\n  line 3: no tool\n  line 5: no id\n  line 9: what is `foo`?\n")
}

// Control characters that tools write are made visible, in a pipe too.
func TestPipedOutputIsSafe(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	const hostile = "\x1b[2J \x1b]52;c;aGk=\x07 \u009b31m"
	w.register(stdio("files", "x"))
	logs(w, map[string]*mcppoolv1.GetMcpServerLogResponse{"files": {Stderr: hostile}})
	w.pool.OnCall = func(_ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(&mcppoolv1.CallToolResponse{Event: &mcppoolv1.CallToolResponse_Result{Result: &mcppoolv1.CallResult{
			Content: []*mcppoolv1.Content{{Kind: &mcppoolv1.Content_Text{Text: hostile}}},
		}}})
	}
	w.serveElsewhere()
	w.executor.Add(hostile).Play(clitest.FlowStart(hostile, commonv1.RiskLevel_RISK_LEVEL_LOW), clitest.Text("a", hostile), clitest.Success(hostile))
	for _, args := range [][]string{
		{"mcp", "call", "files/read"}, {"mcp", "call", "files/read", "--json"}, {"mcp", "logs", "files"}, {"show", "last"}, {"show", "last", "--json"},
		{"watch", "last"}, {"watch", "last", "--json"}, {"tasks"}, {"tasks", "--json"}, {"export", "last"},
	} {
		got := w.pawl(args...)
		if i := strings.IndexFunc(got.out+got.err, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); got.code != 0 || i >= 0 {
			t.Errorf("%q: code %d, %q", args, got.code, got.out+got.err)
		}
	}
}

// A key has no effect on a server without keys, and the command says so.
func TestKeyForAKeylessServer(t *testing.T) {
	w := newWorld(t)
	const said = "the server has no keys: --key has no effect"
	w.pawl("tasks", "--key", "pawl_x").expect(t, 0, "", said)
	w.serveElsewhere()
	w.pawl("tasks", "--key", "pawl_x").expect(t, 0, "", said)
	if got := w.pawl("tasks"); strings.Contains(got.err, said) {
		t.Error(got.err)
	}
}
