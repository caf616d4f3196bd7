package cli_test

import (
	"strings"
	"testing"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const tool = "files/write_file"

// answers plays a task that reads something and answers.
func answers(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
	tape.Play(
		clitest.FlowStart("Find it", commonv1.RiskLevel_RISK_LEVEL_LOW),
		clitest.StepInit("s1", "files/read_file"),
		clitest.StepInput("s1", "files/read_file", `{"path":"a.txt"}`, 1),
		clitest.StepOutput("s1", "files/read_file"),
		clitest.StepInit("s2", "FINAL"),
		clitest.Text("a", "It is "), clitest.Text("a", "there."),
		clitest.Success("It is there."),
	)
}

// asks plays a task that wants approval, and does what the answer says.
func asks(level commonv1.RiskLevel) (create func(*clitest.Tape, *executorv1.CreateTaskRequest), resume func(*clitest.Tape, *executorv1.ResumeTaskRequest) error) {
	create = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
		input := `{"path":"a.txt"}`
		tape.Wait(clitest.ApprovalWait("s1", tool, input, level)).Play(
			clitest.FlowStart("Write it", level),
			clitest.StepInit("s1", tool),
			clitest.AskApproval("s1", tool, input, &commonv1.Risk{Level: level}),
			clitest.Stop("s1"),
		)
	}
	resume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		tape.Resume()
		if req.GetReject() != nil {
			tape.Play(clitest.StepCancel("s1", tool, req.GetReject().GetReason()), clitest.Cancelled(req.GetReject().GetReason()))
			return nil
		}
		tape.Play(clitest.StepInput("s1", tool, `{"path":"a.txt"}`, 1), clitest.StepOutput("s1", tool), clitest.Success("Written."))
		return nil
	}
	return create, resume
}

func TestRunToTheEnd(t *testing.T) {
	for name, tty := range map[string]bool{"run tty": true, "run plain": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "my app")
			w.tty = tty
			w.executor.OnCreate = answers
			w.golden(name, w.pawl("run", "--auto", "--model", "offline", "--language", "zh", "find", "--no-workspace"))
			req := w.executor.Created[0]
			if !req.GetAutoExecute() || req.GetModel() != "offline" || req.GetLanguage() != commonv1.Language_LANGUAGE_ZH || req.GetRequestId() == "" {
				t.Errorf("request: %v", req)
			}
			select {
			case <-w.suites[0].stopped:
			default:
				t.Error("the suite runs on")
			}
		})
	}
}

func TestRunJSON(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty = true // --json is for programs: it never asks, wherever it runs
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	got := w.pawl("run", "write", "--json")
	w.golden("run json", got)
}

func TestExitCodes(t *testing.T) {
	for name, tc := range map[string]struct {
		last *executorv1.ExecutorEvent
		code int
	}{
		"done":      {clitest.Success("x"), 0},
		"failed":    {clitest.Failed("no"), 1},
		"cancelled": {clitest.Cancelled("no"), 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) { tape.Play(tc.last) }
			if got := w.pawl("run", "x"); got.code != tc.code {
				t.Error(got.whole())
			}
			if got := w.pawl("watch", "last", "--after", "1"); got.code != tc.code { // its end was seen before
				t.Error(got.whole())
			}
		})
	}
}

// Without a terminal nothing is asked: the command says which commands go on, and ends with 2.
func TestRunWithoutATerminalNeverAsks(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
	got := w.pawl("run", "write")
	w.golden("run stops", got)
}

func TestRunAsksAtTheTerminal(t *testing.T) {
	for _, tc := range []struct {
		name, typed string
		code        int
		resumed     bool
	}{
		{"approve", "a\nyes\n", 0, true},
		{"reject", "r\nno\n", 2, true},
		{"detach", "d\n", 2, false},
		{"end of input", "", 2, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.tty, w.typed = true, strings.NewReader(tc.typed)
			w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
			got := w.pawl("run", "write")
			if got.code != tc.code || len(w.executor.Resumed) > 0 != tc.resumed {
				t.Error(got.whole())
			}
			w.golden("run asks "+tc.name, got)
		})
	}
}

// An answer that the service refuses is asked for again.
func TestRunAsksAgain(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty, w.typed = true, strings.NewReader("e\n{\"pth\": 1}\na\na\n")
	create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	w.executor.OnCreate = create
	w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetApprove().GetInputJson() != "" {
			return invalidInput()
		}
		return resume(tape, req)
	}
	w.pawl("run", "write").expect(t, 0, "Written.", "not taken: /: additional property pth is not allowed")
}

func TestRunUsage(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"run"}, "there is no goal"},
		{[]string{"run", "   "}, "there is no goal"},
		{[]string{"run", "x", "--language", "fr"}, "--language must be one of"},
		{[]string{"run", "x", "--playbook", "missing.yaml"}, "missing.yaml"},
		{[]string{"run", "x", "--workspace", "missing"}, "missing"},
		{[]string{"run", "x", "--workspace", ".", "--no-workspace"}, "can't be used together"},
		{[]string{"run", "x", "--nonsense"}, "unknown flag --nonsense"},
		{[]string{"rnu", "x"}, `unexpected argument rnu, did you mean "run"?`},
		{[]string{"tasks", "--status", "odd"}, "--status must be one of"},
		{[]string{"tasks", "--status", ""}, "--status is empty"},
		{[]string{"reject", "last", "not today"}, "\"not today\" is no wait\n  next: pawl reject last --reason \"not today\""},
		{[]string{"tasks", "--limit", "0"}, "--limit must be from 1 to 1000"},
		{[]string{"tasks", "--limit", "0"}, "next: leave it out to see 20 tasks; --page-token shows more"},
		{[]string{"playbook", "check", "missing.yaml"}, "pawl: /"},
		{[]string{"topics", "add", "x", "--user", "ada", "--role", "king"}, "--role must be one of \"owner\",\"member\",\"reader\" but"},
		{[]string{"approve", "last", "--edit", "--input", "{}"}, "can't be used together"},
		{[]string{"approve", "last", "--input", "[1]"}, "JSON object"},
		{[]string{"params", "last"}, "there is nothing to supply"},
		{[]string{"approve", "last", "--max-risk", "low"}, "--max-risk limits --grant"},
		{[]string{"outcome", "last"}, "say how the call ended"},
		{[]string{"outcome", "last", "--retry", "--skip", "x"}, "can't be used together"},
		{[]string{"outcome", "last", "--output", "written"}, "the output must be one JSON object"},
		{[]string{"run", "x", "--max-time", "soon"}, "--max-time"},
		{[]string{"run", "x", "--max-time=-3s"}, "--max-time -3s"},
		{[]string{"run", "x", "--max-time", "0s"}, "--max-time 0s: it must be more than 0"},
		{[]string{"run", "x", "--max-cost", "2000000000"}, "--max-cost 2e+09: it must be at most 1000000000"},
		{[]string{"run", "x", "--max-tool-calls", "0"}, "--max-tool-calls 0: it must be more than 0"},
		{[]string{"fork", "last", "--wait-timeout", "0s"}, "--wait-timeout 0s: it must be more than 0"},
		{[]string{"delete"}, "expected \"<task> ...\""},
		{[]string{"nosuch"}, "unexpected argument nosuch\n  next: pawl --help"},
		{[]string{"mcp", "lst"}, "unexpected argument lst"},
		{[]string{"models", "x"}, "unexpected argument x"},
		{[]string{"run", "x", "--max-time", "-3s"}, "--max-time: expected duration value"},
		{[]string{"mcp", "add", "x", "--call-timeout=-5s", "--", "cmd"}, "--call-timeout -5s: a time cannot be negative\n  next: --call-timeout 90s"},
		{[]string{"mcp", "add", "x", "--pinning", "foo", "--", "cmd"}, "--pinning must be one of \"approve-changes\","},
		{[]string{"mcp", "add", "x"}, "neither a command nor --url"},
		{[]string{"mcp", "add", "x", "--env", "A", "--", "cmd"}, "--env: expected \"<key>=<value>\""},
		{[]string{"mcp", "add", "x", "--effect", "t=odd", "--", "cmd"}, "no such effect"},
		{[]string{"mcp", "call", "files"}, "names no tool"},
		{[]string{"keys", "list"}, "which keys?"},
		{[]string{"agents", "update", "x"}, "no change is given"},
		{[]string{"completion", "tcsh"}, "must be one of"},
	} {
		got := w.pawl(tc.args...)
		if got.code != 64 || !strings.Contains(got.err, tc.says) || !strings.Contains(got.err, "next: ") || got.out != "" {
			t.Errorf("%q: want %q, got\n%s", tc.args, tc.says, got.whole())
		}
	}
	if len(w.suites) > 0 {
		t.Error("a wrong command line started a server")
	}
}

func TestRunDetached(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.pawl("run", "find", "--detach").expect(t, 0, clitest.ID(1)+"\n", "pawl watch a0000001 follows it")
	w.pawl("run", "find", "--detach", "--json").expect(t, 0, `"id": "`+clitest.ID(2)+`"`, "")
}

func TestRunAgainWithItsRequestID(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.Add("an older task").Play(clitest.Success("Done."))
	w.executor.OnCreate = answers
	for range 2 {
		w.pawl("run", "find", "--request-id", "r1").expect(t, 0, "It is there.", clitest.ID(2))
	}
	if len(w.executor.Created) != 1 {
		t.Error("it was created twice")
	}
}

// One answer leads to the next question at once: parameters, then the approval of the input made from them (A10). Each is asked
// once, after the events that lead to it.
func TestRunAsksOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty, w.typed = true, strings.NewReader("b.txt\n\na\n")
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
		tape.Wait(clitest.ParamsWait("s1", tool, "which file?", paramsSchema)).Play(
			clitest.StepInit("s1", tool), clitest.AskParams("s1", tool, "which file?", paramsSchema), clitest.Stop("s1"))
	}
	_, resume := asks(commonv1.RiskLevel_RISK_LEVEL_LOW)
	w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetParams() == nil {
			return resume(tape, req)
		}
		input := req.GetParams().GetContentJson()
		wait := clitest.ApprovalWait("s1", tool, input, commonv1.RiskLevel_RISK_LEVEL_LOW)
		wait.Id = "wait-again"
		tape.Resume().Wait(wait).Play(clitest.AskApproval("s1", tool, input, nil), clitest.Stop("again"))
		return nil
	}
	got := w.pawl("run", "write")
	got.expect(t, 0, "Written.", "")
	w.golden("run asks twice", got)
}

// Questions that a tool's server asks together are asked one after the other. Without a terminal the task waits, and the command says
// how to answer, even with --auto (A29).
func TestRunAsksWhatAServerAsks(t *testing.T) {
	for name, tty := range map[string]bool{"run asks input": true, "run stops for input": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.tty, w.typed = tty, strings.NewReader("a\nBern\n\ny\n")
			first, second := clitest.InputWait("s1", tool, "a", "which city?", inputSchema, ""), clitest.InputWait("s1", tool, "b", "sign in", "", "https://example.com/sign-in")
			w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
				tape.Wait(first, second).Play(
					clitest.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_LOW), clitest.StepInit("s1", tool), clitest.StepInput("s1", tool, `{"to":"ann"}`, 1),
					clitest.AskInput("s1", tool, "a", "which city?", ""), clitest.AskInput("s1", tool, "b", "sign in", "https://example.com/sign-in"), clitest.Stop("a", "b"))
			}
			w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
				if req.GetWaitId() == first.GetId() {
					tape.Wait(second).Play(clitest.Status("answered"))
					return nil
				}
				tape.Resume().Play(clitest.Continue("s1", tool, "answered"), clitest.StepOutput("s1", tool), clitest.Success("Written."))
				return nil
			}
			w.serveElsewhere()
			got := w.pawl("run", "--auto", "write")
			if want := map[bool]int{true: 0, false: 2}[tty]; got.code != want || len(w.executor.Resumed) != 2-want {
				t.Error(got.whole())
			}
			w.golden(name, got)
		})
	}
}
