package cli_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// approvalAt is a wait for approval that began at a time.
func approvalAt(id string, at time.Time) *executorv1.Wait {
	wait := clitest.ApprovalWait(id, tool, `{"path":"b.txt"}`, commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	wait.CreateTime = timestamppb.New(at)
	return wait
}

// An approval that names no wait does not answer a question that came after the command began.
func TestApproveDoesNotAnswerALaterQuestion(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	tape := w.executor.Add("write")
	w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
		tape.Resume().Play(clitest.Success("Written."))
		return nil
	}
	approve := w.start("approve", "last")
	approve.saw("has no question yet; waiting for one")
	tape.Wait(approvalAt("s1", time.Now().Add(time.Second))).Play(clitest.Stop("s1"))
	approve.wait().expect(t, 1, "", `asks something new, about files/write_file {"path":"b.txt"}; it was not shown, so it is not answered`+"\n  next: pawl approve a0000001 wait-s1\n")
	if len(w.executor.Resumed) > 0 {
		t.Error("a question was approved that was not shown")
	}
	w.pawl("approve", "last", "wait-s1").expect(t, 0, "Written.", "")
}

// An approval with -d does not show the next question, so the same command again does not answer it.
func TestApproveTwiceAndLeave(t *testing.T) {
	for _, show := range []bool{false, true} {
		approveTwice(t, show)
	}
}

func approveTwice(t *testing.T, show bool) {
	w := newWorld(t)
	w.serveElsewhere()
	w.executor.Add("write").Wait(approvalAt("s1", clitest.Epoch)).Play(clitest.Stop("s1"))
	w.executor.OnResume = func(tape *clitest.Tape, req *executorv1.ResumeTaskRequest) error {
		if req.GetWaitId() == "wait-s1" {
			tape.Resume().Wait(approvalAt("s2", clitest.Epoch.Add(time.Second))).Play(clitest.Stop("s2"))
			return nil
		}
		tape.Resume().Play(clitest.Success("Written."))
		return nil
	}
	w.pawl("approve", "last", "-d").expect(t, 0, "", "")
	w.pawl("approve", "last", "-d").expect(t, 1, "", "it was not shown, so it is not answered\n  next: pawl approve a0000001 wait-s2\n")
	w.pawl("tasks").expect(t, 0, "waiting", "")
	w.pawl("approve", "last", "-d").expect(t, 1, "", "was not shown")
	if show {
		w.pawl("show", "last").expect(t, 0, "wait-s2", "")
		w.pawl("approve", "last", "-d").expect(t, 0, "task a0000001 is done", "")
		return
	}
	w.pawl("approve", "last", "wait-s2", "-d").expect(t, 0, "task a0000001 is done", "")
	if n := len(w.executor.Resumed); n != 2 {
		t.Errorf("answered %d times", n)
	}
}

// A task whose model cannot be used in the command's own server is not resumed there: its tool would run, and then the task would fail.
func TestAnswerWithoutTheModelsKey(t *testing.T) {
	w := newWorld(t)
	w.executor.Add("write").Update(func(task *executorv1.Task) { task.Model = "openai:m" }).Wait(approvalAt("s1", clitest.Epoch)).Play(clitest.Stop("s1"))
	w.executor.OnResume = func(tape *clitest.Tape, _ *executorv1.ResumeTaskRequest) error {
		tape.Resume().Play(clitest.Success("Written."))
		return nil
	}
	for _, args := range [][]string{{"approve", "last"}, {"unpause", "last"}, {"fork", "last"}} {
		w.pawl(args...).expect(t, 1, "", "task a0000001 would go on inside this command, where its model does not work: there is no model \"openai:m\"")
	}
	if len(w.executor.Resumed)+len(w.executor.Forked) > 0 {
		t.Error("it was resumed")
	}
	w.serveElsewhere() // with settings of its own
	w.pawl("approve", "last").expect(t, 0, "Written.", "")
}

// --status takes every state that pawl tasks shows, even one that is part of another.
func TestTasksInAStateThatIsShown(t *testing.T) {
	w := newWorld(t)
	w.serveElsewhere()
	history(w)
	w.executor.Add("queued").Update(func(task *executorv1.Task) { task.Queued = true })
	w.executor.Add("paused").Update(func(task *executorv1.Task) { task.PauseRequested = true }).Play(clitest.Stop("pause"))
	for state, want := range map[string]string{"queued": "a0000006", "paused": "a0000007", "waiting": "a0000007 a0000005 a0000004", "running": "a0000006", "pausing": ""} {
		var ids []string
		for line := range strings.Lines(w.pawl("tasks", "--status", state).out) {
			if id := strings.Fields(line)[0]; id != "ID" {
				ids = append(ids, id)
			}
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}
