package cli_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

const paramsSchema = `{"type":"object","properties":{"path":{"type":["string","null"]},"depth":{"type":["integer","null"]}}}`

// history has a task in each state.
func history(w *world) {
	w.executor.Add("find TODOs").Play(clitest.Success("two files"))
	w.executor.Add("break it").Play(clitest.Failed("it broke"))
	w.executor.Add("stop it").Play(clitest.Cancelled("enough"))
	w.executor.Add("write\nit").Wait(clitest.ApprovalWait("s1", tool, `{"path":"a.txt"}`, commonv1.RiskLevel_RISK_LEVEL_HIGH)).Play(clitest.Stop("s1"))
	w.executor.Add("ask for it").Wait(clitest.ParamsWait("s1", tool, "which file?", paramsSchema)).Play(clitest.Stop("s1"))
}

func TestTasks(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.pawl("tasks").expect(t, 0, "", "no tasks")
	history(w)
	w.golden("tasks", w.pawl("tasks"))
	w.golden("tasks waiting", w.pawl("tasks", "--status", "waiting", "--status", "failed"))
	w.golden("tasks limit", w.pawl("tasks", "-n", "1"))
	w.golden("tasks json", w.pawl("tasks", "-n", "1", "--json"))
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	history(w)
	for name, ref := range map[string]string{
		"show done": clitest.ID(1), "show failed": "a0000002", "show approval": "last", "show params": "0000a0000005",
	} {
		if ref == "last" {
			ref = clitest.ID(4)
		}
		w.golden(name, w.pawl("show", ref))
	}
	w.pawl("show", "last").expect(t, 0, clitest.ID(5), "")
}

func TestShowSteps(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	at := func(s int) *timestamppb.Timestamp {
		return timestamppb.New(clitest.Epoch.Add(time.Duration(s) * time.Second))
	}
	w.executor.Add("do it").Update(func(task *executorv1.Task) {
		task.ActiveSteps = []*executorv1.Step{
			{Id: "1", Type: executorv1.StepType_STEP_TYPE_TOOL, ToolId: "files/read", Description: "look first", Status: executorv1.StepStatus_STEP_STATUS_SUCCESS,
				InputJson: `{"path":"a"}`, OutputJson: `{"message":"two\nlines"}`, StartTime: at(0), EndTime: at(2)},
			{Id: "2", Type: executorv1.StepType_STEP_TYPE_TOOL, ToolId: tool, Status: executorv1.StepStatus_STEP_STATUS_ERROR, Attempt: 2,
				Error: &commonv1.ErrorMessage{ErrMsg: "no space\x1b[2J"}, Outcome: commonv1.Outcome_OUTCOME_UNKNOWN},
			{Id: "3", Type: executorv1.StepType_STEP_TYPE_FINAL, ToolId: "FINAL", Status: executorv1.StepStatus_STEP_STATUS_SUCCESS},
		}
	}).Play(clitest.Success("Done."))
	w.golden("show steps short", w.pawl("show", "last"))
	w.golden("show steps", w.pawl("show", "last", "--steps"))
	w.golden("show steps json", w.pawl("show", "last", "--steps", "--json"))
}

func TestTaskReferences(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.pawl("show", "last").expect(t, 1, "", "there is no task yet")
	history(w)
	for ref, want := range map[string]string{
		"0000":                                 "too short",
		"ffffff":                               `begins or ends with "ffffff"`,
		"01920000":                             "names 5 tasks",
		"00000000-0000-7000-8000-000000000000": "there is no task 00000000",
	} {
		if got := w.pawl("show", ref); got.code == 0 || !strings.Contains(got.err, want) || !strings.Contains(got.err, "next: ") {
			t.Errorf("%s: %s", ref, got.whole())
		}
	}
	w.pawl("show", strings.ToUpper(clitest.ID(1))).expect(t, 0, "find TODOs", "")
}

// A9: the answer goes to the one open wait, and the task is followed to its next stop.
func TestApproveInAnotherProcess(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want *executorv1.Approve
	}{
		"as shown":        {nil, &executorv1.Approve{}},
		"the wait named":  {[]string{"wait-s1"}, &executorv1.Approve{}},
		"with an input":   {[]string{"--input", `{"n": 9007199254740993}`}, &executorv1.Approve{InputJson: `{"n":9007199254740993}`}},
		"edited":          {[]string{"--edit"}, &executorv1.Approve{InputJson: `{"path":"b.txt"}`}},
		"input of a file": {[]string{"--input", "@input.json"}, &executorv1.Approve{InputJson: `{"path":"f"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			if err := os.WriteFile("input.json", []byte(`{"path": "f"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			w.serveElsewhere()
			w.tty, w.edit = true, func(_ context.Context, text string) (string, error) {
				return strings.Replace(text, "a.txt", "b.txt", 1), nil
			}
			create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
			w.executor.OnResume = resume
			create(w.executor.Add("write"), nil)
			w.pawl(append([]string{"approve", "last"}, tc.args...)...).expect(t, 0, "Written.", "✓ "+tool)
			if diff := cmp.Diff(tc.want, w.executor.Resumed[0].GetApprove(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An edited input with a mistake, which the command or the service finds, is opened again with the error.
func TestMistakeInAnEditedInput(t *testing.T) {
	for name, start := range map[string][]string{"approve": {"approve", "last", "--edit"}, "run": {"run", "write"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			w.serveElsewhere()
			var opened []string
			edited := []string{`{"path":`, `{"path":"/etc"}`, `{"path":"b.txt"}`}
			w.tty, w.typed, w.edit = true, strings.NewReader("e\na\na\n"), func(_ context.Context, text string) (string, error) {
				opened = append(opened, text)
				return edited[len(opened)-1], nil
			}
			create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_LOW)
			w.executor.OnCreate, w.executor.OnResume = create, func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
				if req.GetApprove().GetInputJson() == `{"path":"/etc"}` {
					return errs.New(codes.InvalidArgument, commonv1.ErrorReason_ERROR_REASON_INVALID_TOOL_INPUT, "outside the folder")
				}
				return resume(tape, req)
			}
			if name == "approve" {
				create(w.executor.Add("write"), nil)
			}
			w.pawl(start...).expect(t, 0, "Written.", "✓ "+tool)
			if len(opened) != 3 || !strings.HasPrefix(opened[1], "# ") || !strings.HasSuffix(opened[1], "\n"+edited[0]) ||
				!strings.HasPrefix(opened[2], "# outside the folder\n") || !strings.HasSuffix(opened[2], "\n"+edited[1]) {
				t.Errorf("the editor got %q", opened)
			}
		})
	}
}

func TestApproveCannot(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	history(w)
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"approve", clitest.ID(1)}, "waits for nothing; it is done"},
		{[]string{"approve", clitest.ID(4), "wait-s2"}, "no open wait wait-s2"},
		{[]string{"approve", clitest.ID(5)}, "waits for parameters, not for approval\n  next: pawl params a0000005 path=… depth=…"},
		{[]string{"params", clitest.ID(4), "a=b"}, "waits for approval, not for parameters\n  next: pawl approve a0000004 wait-s1, or pawl reject a0000004 wait-s1"},
		{[]string{"approve", clitest.ID(4), "--edit"}, "there is no editor"},
	} {
		w.pawl(tc.args...).expect(t, 1, "", tc.says)
	}
}

func TestReject(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
	w.executor.OnResume = resume
	create(w.executor.Add("write"), nil)
	w.pawl("reject", "last", "--reason", "not today").expect(t, 0, "", "⊘ cancelled: not today")
}

func TestParams(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want *executorv1.Params
	}{
		{"by the schema", []string{"path=12", "depth=2"}, &executorv1.Params{ContentJson: `{"depth":2,"path":"12"}`}},
		{"as JSON", []string{"--json-values", `path="x"`, "depth=null"}, &executorv1.Params{ContentJson: `{"depth":null,"path":"x"}`}},
		{"in words", []string{"--description", "the tests"}, &executorv1.Params{ContentJson: "{}", Description: "the tests"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.serveElsewhere()
			w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
				tape.Resume().Play(clitest.Success("Thanks."))
				return nil
			}
			w.executor.Add("ask").Wait(clitest.ParamsWait("s1", tool, "which?", paramsSchema)).Play(clitest.Stop("s1"))
			w.pawl(append([]string{"params", "last"}, tc.args...)...).expect(t, 0, "Thanks.", "")
			if diff := cmp.Diff(tc.want, w.executor.Resumed[0].GetParams(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParamsThatDoNotFit(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("ask").Wait(clitest.ParamsWait("s1", tool, "which?", paramsSchema)).Play(clitest.Stop("s1"))
	w.pawl("params", "last", "depth=two").expect(t, 64, "", "depth: a whole number is wanted")
	w.pawl("params", "last", "pth=x").expect(t, 64, "", "pth is not asked for; the names are: path, depth")
}

const inputSchema = `{"type":"object","required":["city"],"properties":{"city":{"type":"string"},"days":{"type":"integer"}}}`

// A question of a tool's server is answered value by value, with a whole JSON object, or declined.
func TestInput(t *testing.T) {
	accept := executorv1.InputAnswer_ACTION_ACCEPT
	for _, tc := range []struct {
		name string
		args []string
		want *executorv1.InputAnswer
	}{
		{"by name", []string{"city=Bern", "days=2"}, &executorv1.InputAnswer{Action: accept, ContentJson: `{"city":"Bern","days":2}`}},
		{"as JSON", []string{"--json-values", `city="Bern"`}, &executorv1.InputAnswer{Action: accept, ContentJson: `{"city":"Bern"}`}},
		{"as a whole", []string{"--content", `{"city": "Bern"}`}, &executorv1.InputAnswer{Action: accept, ContentJson: `{"city":"Bern"}`}},
		{"done", []string{"--done"}, &executorv1.InputAnswer{Action: accept}},
		{"no", []string{"--decline"}, &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_DECLINE}},
		{"neither", []string{"--dismiss"}, &executorv1.InputAnswer{Action: executorv1.InputAnswer_ACTION_CANCEL}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.serveElsewhere()
			w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
				tape.Resume().Play(clitest.Continue("s1", tool, "answered"), clitest.StepOutput("s1", tool), clitest.Success("Thanks."))
				return nil
			}
			w.executor.Add("ask").Wait(clitest.InputWait("s1", tool, "s1", "which?", inputSchema, "")).Play(clitest.Stop("s1"))
			w.pawl(append([]string{"input", "last"}, tc.args...)...).expect(t, 0, "Thanks.", "")
			if diff := cmp.Diff(tc.want, w.executor.Resumed[0].GetInput(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestInputThatDoesNotFit(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("ask").Wait(clitest.InputWait("s1", tool, "s1", "which?", inputSchema, "")).Play(clitest.Stop("s1"))
	w.pawl("input", "last", "days=two").expect(t, 64, "", "days: a whole number is wanted")
	w.pawl("input", "last", "town=x").expect(t, 64, "", "town is not asked for; the names are: city, days")
	w.pawl("input", "last", "days=2").expect(t, 64, "", "required values are missing: city\n  next: pawl input last city=… [days=…]")
	w.pawl("input", "last").expect(t, 64, "", "there is no answer")
	w.pawl("input", "last", "city=Bern", "--decline").expect(t, 64, "", "cannot be combined with --content")
	w.pawl("approve", "last").expect(t, 1, "", "waits for input to its MCP server, not for approval\n  next: pawl input a0000001 city=… [days=…], or pawl input a0000001 --decline")
}

func TestShowInput(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("ask for it").Wait(
		clitest.InputWait("s1", tool, "a", "which city?", inputSchema, ""), clitest.InputWait("s1", tool, "b", "sign in", "", "https://example.com/sign-in"),
	).Play(clitest.Stop("a", "b"))
	w.golden("show input", w.pawl("show", "last"))
}

func TestAnswerAndLeave(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	create, _ := asks(commonv1.RiskLevel_RISK_LEVEL_LOW)
	w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error { tape.Resume(); return nil }
	create(w.executor.Add("write"), nil)
	w.pawl("approve", "last", "-d").expect(t, 0, "task a0000001 is running\n", "")
	w.pawl("cancel", "last", "-d", "--json").expect(t, 0, `"status": "EXECUTOR_STATUS_RUNNING"`, "")
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	history(w)
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		tape.Play(clitest.Cancelled(req.GetReason()))
	}
	w.pawl("cancel", clitest.ID(4), "--reason", "enough").expect(t, 0, "⊘ task a0000004 is cancelled\n", "")
	w.pawl("cancel", clitest.ID(1)).expect(t, 0, "task a0000001 had already ended: done\n", "")
	w.executor.OnCancel = func(tape *clitest.Tape, _ *executorv1.CancelTaskRequest) { go tape.Play(clitest.Success("x")) }
	w.pawl("cancel", clitest.ID(5)).expect(t, 1, "ended before it could be cancelled: done", "")
}

// pawl watch continues while the task waits, and says how to answer.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	w.executor.OnResume = resume
	tape := w.executor.Add("write")
	create(tape, nil)
	watching := w.start("watch", "last")
	watching.saw("pawl reject")
	w.pawl("approve", "last", "--detach").expect(t, 0, "done", "")
	w.golden("watch", watching.wait())
	w.golden("watch json", w.pawl("watch", "last", "--json", "--after", "6"))
}
