package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	"pawl.dev/services/errs"
)

// doubts plays a task that does not know the outcome of a call, and goes on with any answer.
func doubts(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
	tape.Wait(clitest.OutcomeWait("s1", tool, `{"path":"a.txt"}`, "the connection closed")).Play(
		clitest.FlowStart("Write it", commonv1.RiskLevel_RISK_LEVEL_MEDIUM),
		clitest.StepInit("s1", tool), clitest.StepInput("s1", tool, `{"path":"a.txt"}`, 1),
		clitest.AskOutcome("s1", tool, `{"path":"a.txt"}`, "the connection closed"), clitest.Stop("s1"),
	)
}

func settles(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
	tape.Resume()
	if req.GetReject() != nil {
		tape.Play(clitest.StepCancel("s1", tool, req.GetReject().GetReason()), clitest.Cancelled(req.GetReject().GetReason()))
		return nil
	}
	tape.Play(clitest.StepOutput("s1", tool), clitest.Success("Settled."))
	return nil
}

// An unknown outcome is shown as such, with the four possible answers.
func TestOutcomeIsShown(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate, w.executor.OnResume = doubts, settles
	w.golden("run doubts", w.pawl("run", "write", "--no-workspace"))
	w.golden("show doubts", w.pawl("show", "last"))
	w.pawl("approve", "last").expect(t, 1, "", "waits for a decision on a call whose outcome is unknown, not for approval\n  next: pawl outcome a0000001 wait-s1 --retry, or ")
	w.pawl("run", "write", "--json").expect(t, 2, "", "⏸ files/write_file was called, and it is not known whether it ran: the connection closed")
	w.tty, w.typed = true, strings.NewReader("s\nit is there\n")
	w.golden("run asks outcome", w.pawl("run", "write"))
}

func TestOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want *executorv1.OutcomeAnswer
	}{
		"retry":            {[]string{"--retry"}, &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Retry{Retry: &executorv1.OutcomeRetry{}}}},
		"output":           {[]string{"--output", `{"n": 9007199254740993}`}, outputOf(`{"n":9007199254740993}`)},
		"output of a file": {[]string{"--output", "@out.json"}, outputOf(`{"message":"f"}`)},
		"skip":             {[]string{"wait-s1", "--skip", "it is there"}, &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{Reason: "it is there"}}}},
		"skip, no reason":  {[]string{"--skip", ""}, &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Skip{Skip: &executorv1.OutcomeSkip{}}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chdir(t, "app")
			if err := os.WriteFile("out.json", []byte(`{"message": "f"}`), 0o600); err != nil {
				t.Fatal(err)
			}
			w.serveElsewhere()
			w.executor.OnResume = settles
			doubts(w.executor.Add("write"), nil)
			w.pawl(append([]string{"outcome", "last"}, tc.args...)...).expect(t, 0, "Settled.", "")
			if diff := cmp.Diff(tc.want, w.executor.Resumed[0].GetOutcome(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.OnResume = settles
	doubts(w.executor.Add("write"), nil)
	w.pawl("reject", "last", "--reason", "enough").expect(t, 0, "", "⊘ cancelled: enough")
}

func outputOf(exact string) *executorv1.OutcomeAnswer {
	return &executorv1.OutcomeAnswer{Answer: &executorv1.OutcomeAnswer_Output{Output: &executorv1.OutcomeOutput{OutputJson: exact}}}
}

// A grant covers the tool for the rest of the task, up to the risk that was shown or named.
func TestGrant(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want *executorv1.Approve
	}{
		"as shown": {[]string{"--grant"}, &executorv1.Approve{Grant: &executorv1.Grant{}}},
		"less":     {[]string{"--grant", "--max-risk", "low"}, &executorv1.Approve{Grant: &executorv1.Grant{MaxRisk: commonv1.RiskLevel_RISK_LEVEL_LOW}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.serveElsewhere()
			create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_HIGH)
			w.executor.OnResume = resume
			create(w.executor.Add("write"), nil)
			w.pawl(append([]string{"approve", "last"}, tc.args...)...).expect(t, 0, "Written.", "")
			if diff := cmp.Diff(tc.want, w.executor.Resumed[0].GetApprove(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// pauses plays a pause: at once, or after the running call has come back.
func pauses(tape *clitest.Tape, req *executorv1.PauseTaskRequest) {
	tape.Wait(clitest.PauseWait(req.GetReason())).Play(clitest.Status("paused"), clitest.Stop("pause"))
}

func unpauses(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
	tape.Update(func(task *executorv1.Task) { task.PauseRequested = false })
	tape.Resume().Play(clitest.Status("unpaused"), clitest.Success("After the pause."))
	return nil
}

func TestPause(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("write")
	runsOn(tape, nil)
	w.executor.OnPause, w.executor.OnResume = pauses, unpauses
	w.pawl("pause", "last", "--reason", "lunch").expect(t, 0, "⏸ task a0000001 is paused\n", "pawl unpause a0000001 continues it")
	w.pawl("tasks").expect(t, 0, "a0000001  paused", "")
	w.golden("show paused", w.pawl("show", "last"))
	w.pawl("approve", "last").expect(t, 1, "", "waits to be unpaused, not for approval\n  next: pawl unpause a0000001")
	w.pawl("unpause", "last").expect(t, 0, "After the pause.", "· unpaused")
	w.pawl("unpause", "last", "--json").expect(t, 0, "SUCCESS", "")
	w.pawl("unpause", "last").expect(t, 0, "task a0000001 was not paused; it is done\n", "")
}

// A pause waits for the call that is running, unless it is told not to.
func TestPauseOfARunningCall(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("write")
	runsOn(tape, nil)
	w.pawl("pause", "last", "-d").expect(t, 0, "task a0000001 pauses when its running call ends\n", "")
	w.pawl("tasks").expect(t, 0, "a0000001  pausing", "")
	w.executor.OnPause = func(tape *clitest.Tape, req *executorv1.PauseTaskRequest) {
		go func() {
			tape.Play(clitest.StepOutput("s1", tool))
			pauses(tape, req)
		}()
	}
	w.pawl("pause", "last").expect(t, 0, "is paused\n", "")

	ends := w.executor.Add("end")
	runsOn(ends, nil)
	w.executor.OnPause = func(tape *clitest.Tape, _ *executorv1.PauseTaskRequest) { go tape.Play(clitest.Success("x")) }
	w.pawl("pause", "last").expect(t, 1, "ended before it could be paused: done\n", "")
}

// Another user pauses the task while a person is asked: the question is put again, then the pause is dealt with.
func TestPauseWhileAsking(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.tty, w.typed = true, strings.NewReader("u\n")
	w.executor.OnCreate = func(tape *clitest.Tape, req *executorv1.CreateTaskRequest) {
		runsOn(tape, req)
		pauses(tape, &executorv1.PauseTaskRequest{Reason: "lunch"})
	}
	w.executor.OnResume = unpauses
	got := w.pawl("run", "write")
	got.expect(t, 0, "After the pause.", "the task is paused: lunch")
	w.golden("run asks pause", got)

	w.typed = strings.NewReader("c\n")
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		tape.Play(clitest.Cancelled(req.GetReason()))
	}
	w.pawl("run", "write").expect(t, 2, "", "⊘ cancelled")
}

// What was asked before the pause is still asked after it, though no event says so again.
func TestUnpauseToAnOpenQuestion(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("write")
	create, _ := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	create(tape, nil)
	approval := clitest.ApprovalWait("s1", tool, `{"path":"a.txt"}`, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	w.executor.OnPause = func(tape *clitest.Tape, _ *executorv1.PauseTaskRequest) {
		tape.Wait(approval, clitest.PauseWait("")).Play(clitest.Status("pause requested"), clitest.Stop("s1", "pause"))
	}
	w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
		tape.Update(func(task *executorv1.Task) { task.PauseRequested = false })
		tape.Wait(approval).Play(clitest.Status("unpaused"))
		return nil
	}
	w.pawl("pause", "last").expect(t, 0, "is paused", "")
	tape.Wait(approval) // as if the question had come during the call that the pause waited for
	w.pawl("show", "last").expect(t, 0, "the task is paused\n  next: pawl unpause a0000001\n", "")
	w.pawl("unpause", "last").expect(t, 2, "", "pawl approve "+clitest.ID(1))
}

// A30: a fork shows only its new events, and starts like any task.
func TestFork(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("write").Play(clitest.FlowStart("Old name", 0), clitest.StepInit("s1", tool), clitest.StepOutput("s1", tool), clitest.Failed("no"))
	w.executor.OnCreate = func(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) { tape.Play(clitest.Success("Forked.")) }
	got := w.pawl("fork", "last", "--at", "3", "--goal", " other ")
	got.expect(t, 0, "Forked.", "task a0000002 goes on from event 3 of a0000001")
	if strings.Contains(got.err, "Old name") {
		t.Error(got.whole())
	}
	if req := w.executor.Forked[0]; req.GetSeq() != 3 || req.GetGoal() != "other" || req.GetRequestId() == "" || req.GetId() != clitest.ID(1) {
		t.Errorf("request: %v", req)
	}
	w.pawl("fork", clitest.ID(1), "--detach").expect(t, 0, clitest.ID(3)+"\n", "pawl watch a0000003 follows it")
	w.pawl("show", "last").expect(t, 0, "fork of   "+clitest.ID(1)+", at event 4", "")
	w.pawl("fork", clitest.ID(1), "--at", "0").expect(t, 64, "", "--at 0 is before the first event")
	w.pawl("fork", clitest.ID(1), "--at", "99").expect(t, 64, "", "no step of the task ended with that event\n  next: pawl watch a0000001 --json shows the events: give the seq")
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	history(w)
	w.pawl("delete", clitest.ID(4)).expect(t, 1, "", "has not ended yet\n  next: pawl cancel")
	got := w.pawl("delete", clitest.ID(1), clitest.ID(4), clitest.ID(2), clitest.ID(1))
	got.expect(t, 1, "task a0000001 is deleted\ntask a0000002 is deleted\n", "! task a0000004: the task has not ended yet\npawl: 1 of 3 tasks are not deleted")
	w.pawl("show", clitest.ID(1)).expect(t, 1, "", "there is no task")
	w.pawl("delete", clitest.ID(3), "unknown").expect(t, 1, "", `"unknown"`) // nothing is deleted before all are known
	w.pawl("delete", clitest.ID(3), "--json").expect(t, 0, "\""+clitest.ID(3)+"\"", "")
	w.pawl("delete", clitest.ID(3)).expect(t, 1, "", "there is no task")
}

func TestExport(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	chdir(t, "app")
	w.executor.Add("find 日本 \u009b2J").Play(clitest.Success("two files"))
	want := func(raw string) {
		t.Helper()
		var doc struct{ Goal string }
		if err := json.Unmarshal([]byte(raw), &doc); err != nil || doc.Goal != "find 日本 \u009b2J" {
			t.Errorf("%v: %q", err, raw)
		}
	}
	plain := w.pawl("export", "last")
	plain.expect(t, 0, `\u009b`, "")
	want(plain.out)
	w.tty = true
	shown := w.pawl("export", "last")
	if shown.expect(t, 0, `\u009b`, ""); strings.Contains(shown.out, "\u009b") {
		t.Error("it commands the terminal")
	}
	want(shown.out)
	w.pawl("export", "last", "-o", "task.json").expect(t, 0, "task a0000001 is exported to ", "")
	raw, err := os.ReadFile("task.json")
	if err != nil {
		t.Fatal(err)
	}
	want(string(raw))
	w.pawl("export", "last", "-o", "task.json", "--json").expect(t, 0, `"bytes": `, "")
	w.pawl("export", "last", "-o", "no/such/folder.json").expect(t, 1, "", "no such")
	w.pawl("export", clitest.ID(7)).expect(t, 1, "", "there is no task")
}

// If an export breaks off, its file does not appear, and an old one stays.
func TestExportThatBreaksOff(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	chdir(t, "app")
	w.executor.Add("find").Play(clitest.Success("two files"))
	w.executor.OnWatch = func(_ string, seq uint64) error {
		if seq < 3 {
			return nil
		}
		return errs.New(codes.Internal, commonv1.ErrorReason_ERROR_REASON_STORAGE_ERROR, "the disk is gone")
	}
	if err := os.WriteFile("task.json", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pawl("export", "last", "-o", "task.json").expect(t, 1, "", "the disk is gone")
	raw, err := os.ReadFile("task.json")
	if files, _ := filepath.Glob(".task*"); err != nil || string(raw) != "old" || len(files) > 0 {
		t.Errorf("%v: %q, beside it %q", err, raw, files)
	}
	w.pawl("export", "last").expect(t, 1, "", "the disk is gone")
}

func limited(after time.Duration) error {
	return errs.New(codes.ResourceExhausted, commonv1.ErrorReason_ERROR_REASON_RATE_LIMITED, "at most 5 requests in 15s").WithRetryAfter(after)
}

// A28: a command that is refused because of too many requests waits as long as it is told, says so once, and tries again.
func TestRunWaitsAfterTooManyRequests(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.executor.OnCreate = answers
	times := 0
	w.executor.OnAdmit = func() error {
		if times++; times > 3 {
			return nil
		}
		return limited(time.Millisecond)
	}
	got := w.pawl("run", "find")
	got.expect(t, 0, "It is there.", "too many requests in a short time; trying again in ")
	if n := strings.Count(got.err, "too many requests"); n != 1 || times != 4 {
		t.Errorf("said %d times, asked %d times", n, times)
	}
	times = 2
	w.pawl("fork", "last", "-d").expect(t, 0, clitest.ID(2), "too many requests")
}

// A command that is told to wait too long fails, and an interrupt ends the waiting.
func TestRunDoesNotWaitForEver(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.executor.OnAdmit = func() error { return limited(time.Hour) }
	w.pawl("run", "find").expect(t, 1, "", "at most 5 requests in 15s (try again in 1h)")
	w.executor.OnAdmit = func() error { return limited(time.Minute) }
	run := w.start("run", "find")
	run.saw("too many requests in a short time; trying again in 1m00s (Ctrl-C leaves)")
	w.signals <- os.Interrupt
	run.wait().expect(t, 2, "", "interrupted")
}

func TestBudget(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = answers
	w.pawl("run", "x", "--max-tool-calls", "3", "--max-model-calls", "4", "--max-tokens", "5000000000", "--max-time", "5m", "--wait-timeout", "24h").expect(t, 0, "", "")
	w.pawl("run", "x").expect(t, 0, "", "")
	want := &executorv1.Budget{MaxToolCalls: 3, MaxModelCalls: 4, MaxTokens: 5_000_000_000, MaxRunTime: durationpb.New(5 * time.Minute)}
	if diff := cmp.Diff(want, w.executor.Created[0].GetBudget(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if got := w.executor.Created[0].GetWaitTimeout().AsDuration(); got != 24*time.Hour {
		t.Errorf("wait timeout %s", got)
	}
	if req := w.executor.Created[1]; req.GetBudget() != nil || req.GetWaitTimeout() != nil {
		t.Errorf("request: %v", req)
	}
}

// An update of an agent's budget keeps the limits that it does not name.
func TestBudgetOfAnAgent(t *testing.T) {
	w := newWorld(t)
	w.agents = clitest.NewAgents(t)
	w.serveElsewhere()
	w.pawl("agents", "create", "a", "--max-tool-calls", "3", "--max-time", "90s", "--wait-timeout", "1h", "--on-unknown-outcome", "fail").
		expect(t, 0, "budget   3 tool calls, 1m30s of running\n  waits    expire after 1h00m\n  outcomes fail if unknown\n", "")
	w.pawl("agents", "update", "a", "--max-tokens", "9").expect(t, 0, "budget   3 tool calls, 9 tokens, 1m30s of running", "")
	w.pawl("agents", "update", "a", "--on-unknown-outcome", "retry", "--wait-timeout", "0s").expect(t, 0, "", "")
	w.pawl("agents", "update", "b", "--max-tokens", "9").expect(t, 1, "", `there is no agent "b"`)
	if diff := cmp.Diff([][]string{{"budget"}, {"on_unknown_outcome", "wait_timeout"}}, masks(w)); diff != "" {
		t.Error(diff)
	}
	if got := w.pawl("agents", "create", "x", "--on-unknown-outcome", "hope"); got.code != 64 {
		t.Error(got.whole())
	}
}

// pawl watch asks at a terminal too, but not what is answered already.
func TestWatchAsks(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	create, resume := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	tape := w.executor.Add("write")
	tape.Play(clitest.StepInit("s0", tool), clitest.AskApproval("s0", tool, `{}`, nil), clitest.Stop("s0"), clitest.StepInput("s0", tool, `{}`, 1), clitest.StepOutput("s0", tool))
	create(tape, nil)
	w.executor.OnResume = resume
	w.tty, w.typed = true, strings.NewReader("a\n")
	got := w.pawl("watch", "last")
	if got.expect(t, 0, "Written.", "[a]pprove"); strings.Count(got.err, "[a]pprove") != 1 || len(w.executor.Resumed) != 1 {
		t.Error(got.whole())
	}
}

// A28: if a task waits for a running slot for a while, the command says so.
func TestQueued(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("write").Update(func(task *executorv1.Task) { task.Queued = true })
	w.pawl("tasks").expect(t, 0, "a0000001  queued", "")
	w.pawl("show", "last").expect(t, 0, "state     queued", "")
	watching := w.start("watch", "last")
	watching.saw("the task is queued: it goes on when fewer tasks run")
	tape.Play(clitest.Success("At last."))
	watching.wait().expect(t, 0, "At last.", "")
}
