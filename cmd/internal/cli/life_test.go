package cli_test

import (
	"errors"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"pawl.dev/cmd/internal/clitest"
	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// TestMain makes collections of garbage rare: each command line makes much of it, and little memory is in use.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// runsOn plays a task that runs until something else is played.
func runsOn(tape *clitest.Tape, _ *executorv1.CreateTaskRequest) {
	tape.Play(clitest.FlowStart("Take long", commonv1.RiskLevel_RISK_LEVEL_LOW), clitest.StepInit("s1", tool), clitest.StepInput("s1", tool, `{}`, 1))
}

// Ctrl-C leaves a task that a server runs; it goes on.
func TestInterruptWithAServer(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.serveElsewhere()
	w.executor.OnCreate = runsOn
	run := w.start("run", "long")
	run.saw("● Take long")
	w.signals <- os.Interrupt
	run.wait().expect(t, 2, "", "the task goes on; pawl watch a0000001 follows it, pawl cancel a0000001 stops it")
}

// Ctrl-C cancels the task that runs inside the command, in order.
func TestInterruptEmbedded(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = runsOn
	w.executor.OnCancel = func(tape *clitest.Tape, req *executorv1.CancelTaskRequest) {
		tape.Play(clitest.StepCancel("s1", tool, "told to stop"), clitest.Cancelled(req.GetReason()))
	}
	run := w.start("run", "long")
	run.saw("● Take long")
	w.signals <- os.Interrupt
	run.wait().expect(t, 2, "", "⊘ cancelled: interrupted at the terminal")
}

func TestSecondInterruptLeavesAtOnce(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = runsOn // without OnCancel a cancellation has no effect
	run := w.start("run", "long")
	run.saw("● Take long")
	w.signals <- os.Interrupt
	run.saw("cancelling the task; Ctrl-C again leaves at once")
	w.signals <- os.Interrupt
	run.wait().expect(t, 2, "", "")
}

// SIGTERM ends the command, and does not cancel the task.
func TestTerminate(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	w.executor.OnCreate = runsOn
	w.executor.OnCancel = func(*clitest.Tape, *executorv1.CancelTaskRequest) { t.Error("cancelled") }
	run := w.start("run", "long")
	run.saw("● Take long")
	w.signals <- syscall.SIGTERM
	run.wait().expect(t, 2, "", "the task goes on with the next pawl command")
}

func TestInterruptAtAQuestion(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	typed, end := io.Pipe()
	defer end.Close()
	w.tty, w.typed = true, typed
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	run := w.start("run", "write")
	run.saw("[d]etach")
	w.signals <- os.Interrupt
	run.wait().expect(t, 2, "", "the task waits; go on with pawl approve a0000001")
}

// While one person is asked, another answers elsewhere.
func TestAnsweredElsewhere(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	typed, end := io.Pipe()
	defer end.Close()
	w.tty, w.typed = true, typed
	w.serveElsewhere()
	w.executor.OnCreate, w.executor.OnResume = asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	run := w.start("run", "write")
	run.saw("[d]etach")
	w.pawl("approve", "last", "-d").expect(t, 0, "", "")
	run.wait().expect(t, 0, "Written.", "the question is no longer open")
}

// A suite inside a command stays while it runs another command's task, and Ctrl-C leaves it.
func TestLinger(t *testing.T) {
	w := newWorld(t)
	other := w.executor.Add("other")
	list := w.start("tasks")
	list.saw("1 task is still running in this process")
	other.Play(clitest.Success("x"))
	list.wait().expect(t, 0, "other", "")

	w.executor.Add("another")
	list = w.start("tasks")
	list.saw("1 task is still running in this process")
	w.signals <- os.Interrupt
	list.wait().expect(t, 0, "another", "")
}

// If the server ends while a task is followed, and another one takes the data folder, each event is shown once.
func TestTheServerGoesAway(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	server := w.serveElsewhere()
	w.executor.OnCreate = runsOn
	run := w.start("run", "long")
	run.saw("● Take long")
	server.Stop()
	run.saw("went away; waiting for it to come back")
	w.serveElsewhere()
	w.executor.Tape(clitest.ID(1)).Play(clitest.StepOutput("s1", tool), clitest.Success("At last."))
	got := run.wait()
	got.expect(t, 0, "At last.", "✓ done")
	if n := strings.Count(got.err, "Take long"); n != 1 || len(w.suites) > 0 {
		t.Errorf("the flow's name was shown %d times, %d suites started", n, len(w.suites))
	}
}

func TestNamedServer(t *testing.T) {
	w := newWorld(t)
	chdir(t, "app")
	server := clitest.Serve(t, w.services()...)
	create, _ := asks(commonv1.RiskLevel_RISK_LEVEL_MEDIUM)
	w.executor.OnCreate = create
	got := w.pawl("run", "write", "--server", server.Addr)
	got.expect(t, 2, "", "pawl approve "+clitest.ID(1)+" wait-s1 --server "+server.Addr) // the hint reaches the same server
	if ids := w.executor.Created[0].GetMcpIds(); len(ids) > 0 || len(w.suites) > 0 {
		t.Errorf("the folder was offered to a server elsewhere: %q, suites %d", ids, len(w.suites))
	}
	w.pawl("run", "x", "--server", server.Addr, "--workspace", ".").expect(t, 64, "", "may be elsewhere")
	server.Stop()
	w.pawl("tasks", "--server", server.Addr).expect(t, 1, "", "no server answers at "+server.Addr)
}

func TestTheDataFolderIsHeld(t *testing.T) {
	w := newWorld(t)
	w.newErr = errLocked
	w.pawl("tasks").expect(t, 1, "", "is held by another process, which does not answer")
	w.newErr = errors.New("disk full")
	w.pawl("tasks").expect(t, 1, "", "pawl: disk full")
}

// An interrupt before there is a server ends the command; a second one ends the process.
func TestInterruptWhileStarting(t *testing.T) {
	w := newWorld(t)
	w.newErr = errLocked
	tasks := w.start("tasks")
	w.signals <- os.Interrupt
	w.signals <- os.Interrupt
	if code := <-w.exited; code != 2 {
		t.Errorf("exit %d", code)
	}
	if got := tasks.wait(); got.code != 2 {
		t.Error(got.whole())
	}
}
