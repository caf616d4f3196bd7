package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// If an approval and a cancel race, both are answered, and the outcome of a call that was never made is not UNKNOWN.
func TestApproveAndCancel(t *testing.T) {
	for name, both := range map[string]func(approve, cancel func()){
		"at once":     func(approve, cancel func()) { var wg sync.WaitGroup; wg.Go(approve); wg.Go(cancel); wg.Wait() },
		"one by one":  func(approve, cancel func()) { approve(); cancel() },
		"other order": func(approve, cancel func()) { cancel(); approve() },
	} {
		for _, tool := range []string{"read", "write"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				r := newRig(t, fake.Script(tool)).start()
				for range 15 {
					id := r.create(always)
					r.await(id, waiting)
					both(
						func() { wantAnswer(t, "approve", r.send(id, approveCommand("wait-1")), 0, taskEnded) },
						func() { wantAnswer(t, "cancel", r.send(id, cancelCommand()), 0, taskEnded) },
					)
					r.await(id, cancelled, success)
					if n := len(r.pool.CalledFor(id)); n > 1 {
						t.Errorf("the tool was called %d times", n)
					}
					for _, e := range r.events(id) {
						if o := e.GetStepCancel().GetOutcome(); o == commonv1.Outcome_OUTCOME_UNKNOWN && len(r.pool.CalledFor(id)) == 0 {
							t.Error("the outcome of a call that never was is unknown")
						}
					}
				}
			})
		}
	}
}

// A cancel that is durable before a call begins prevents the call, wherever the cancel arrives.
func TestCancelBeforeTheCall(t *testing.T) {
	want := []string{"STEP_INPUT", "STEP_CANCEL", "FLOW_CANCEL"}
	t.Run("approved and cancelled in one batch", func(t *testing.T) {
		r, inbox := newRig(t, fake.Script("write")), newBarrier(t)
		hold := r.holdInbox(inbox)
		r.start()
		id := r.create(always)
		r.await(id, waiting)
		hold(id)
		approve := r.queue(id, approveCommand("wait-1"))
		inbox.await()
		cancel := r.queue(id, cancelCommand())
		inbox.open()
		wantAnswer(t, "approve", receive(t, approve), 0)
		wantAnswer(t, "cancel", receive(t, cancel), 0)
		r.await(id, cancelled)
		wantUncalled(r, id, "write", want)
	})
	t.Run("while the intent is committed", func(t *testing.T) {
		r, intent := newRig(t, fake.Script("write")), newBarrier(t)
		r.j.onCommit = holdCommit(intent, isInput)
		r.start()
		id := r.create(never)
		intent.await()
		cancel := r.queue(id, cancelCommand())
		intent.open()
		wantAnswer(t, "cancel", receive(t, cancel), 0)
		r.await(id, cancelled)
		wantUncalled(r, id, "write", want)
	})
	t.Run("while the outcome before it is committed", func(t *testing.T) {
		p := fake.Script("read", "write")
		planned := make(chan struct{}, 2)
		p.BeforePlan = func(context.Context) error { planned <- struct{}{}; return nil }
		r, outcome := newRig(t, p), newBarrier(t)
		r.j.onCommit = holdCommit(outcome, isOutput)
		r.start()
		id := r.create(never)
		outcome.await()
		receive(t, planned)
		receive(t, planned) // the next step is planned beside the commit
		cancel := r.queue(id, cancelCommand())
		outcome.open()
		wantAnswer(t, "cancel", receive(t, cancel), 0)
		r.await(id, cancelled)
		wantUncalled(r, id, "write", []string{"STEP_INPUT", "STEP_OUTPUT", "FLOW_CANCEL"})
	})
}

// holdInbox returns hold, which makes the owner of a task stop at the barrier before it reads the inbox.
func (r *rig) holdInbox(b *barrier) (hold func(id string)) {
	var held atomic.Value
	r.j.onRead = func(method, id string) error {
		if method == "Inbox" && held.Load() == id {
			b.pass()
		}
		return nil
	}
	return func(id string) { held.Store(id) }
}

// wantUncalled checks that the tool was not called, and how the log ends.
func wantUncalled(r *rig, id, tool string, end []string) {
	r.t.Helper()
	for _, c := range r.pool.CalledFor(id) {
		if c.GetName() == tool {
			r.t.Errorf("%s was called although the task was cancelled", tool)
		}
	}
	got := r.types(id)
	if d := cmp.Diff(end, got[max(0, len(got)-len(end)):]); d != "" {
		r.t.Errorf("the last events (-want +got):\n%s", d)
	}
	for _, e := range r.events(id) {
		if c := e.GetStepCancel(); c != nil && c.GetOutcome() != commonv1.Outcome_OUTCOME_NOT_EXECUTED {
			r.t.Errorf("STEP_CANCEL with outcome %s, want NOT_EXECUTED", c.GetOutcome())
		}
	}
}

// Whatever a task is doing, a cancel ends it at once, each attempt ends once (A17), and its running slot is free again.
func TestCancelAtEveryPhase(t *testing.T) {
	for phase, confirm := range phases {
		t.Run(phase, func(t *testing.T) {
			r, work := newRig(t, fake.Script("write")), newBarrier(t)
			r.cfg.MaxRunning = 1
			r.holdPhase(phase, work)
			r.start()
			id := r.create(confirm)
			if confirm == always {
				r.await(id, waiting)
			}
			if phase == "diagnose" || phase == "fill" {
				wantAnswer(t, "approve", r.send(id, approveCommand("wait-1")), 0)
			}
			if phase == "fill" {
				r.await(id, waiting)
				wantAnswer(t, "params", r.send(id, &storagev1.Command{Kind: &storagev1.Command_Params{Params: &storagev1.SupplyParams{
					WaitId: "wait-2", Supplied: &storagev1.Supplied{ContentJson: `{"text":"better"}`},
				}}}), 0)
			}
			if phase != "wait" {
				work.await()
			}
			wantAnswer(t, "the first cancel", r.send(id, cancelCommand()), 0)
			wantAnswer(t, "the second cancel", r.send(id, cancelCommand()), 0, taskEnded)
			r.await(id, cancelled)
			if got := r.types(id); got[len(got)-1] != "FLOW_CANCEL" {
				t.Errorf("events %v", got)
			}
			r.await(r.create(always), waiting, success)
		})
	}
}

var phases = map[string]executorv1.Confirm{
	"plan": never, "call": never, "derive": never, "answer": never, "wait": always, "diagnose": always, "fill": always,
}

// holdPhase holds the first request of a phase at the barrier until the request is cancelled.
func (r *rig) holdPhase(phase string, work *barrier) {
	wait := func(ctx context.Context) error {
		context.AfterFunc(ctx, work.open)
		work.pass()
		return ctx.Err()
	}
	fail := func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		return send(fake.TextResult("no", true))
	}
	switch phase {
	case "plan":
		r.planner.BeforePlan = wait
	case "call":
		r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, _ func(*mcppoolv1.CallToolResponse) error) error {
			return wait(ctx)
		}
	case "derive":
		r.planner.BeforeDerive, r.pool.CallFn = wait, fail
	case "diagnose":
		r.planner.BeforeParam, r.pool.CallFn = wait, fail
	case "fill":
		r.planner.ParamError = true
		r.planner.BeforeFill, r.pool.CallFn = wait, fail
	case "answer":
		r.planner.Steps = nil
		r.planner.AnswerFn = func(ctx context.Context, _ *plannerv1.GenerateAnswerRequest, send func(string) error) error {
			if err := send("half"); err != nil {
				return err
			}
			return wait(ctx)
		}
	}
}

// A durable cancel is not lost if its owner hears of a later command first, and the outcome of the running call is still recorded.
func TestLaterCommandDoesNotOvertake(t *testing.T) {
	r, call := newRig(t, fake.Script("write")), newBarrier(t)
	r.start()
	n := newTask(always)
	r.holds.Store(n.ID, call)
	id := r.createAs(n)
	r.await(id, waiting)
	wantAnswer(t, "approve", r.send(id, approveCommand("wait-1")), 0)
	call.await()

	c, sender, answer := cancelCommand(), newBarrier(t), make(chan error, 1)
	r.j.onSent.Store(c, sender.pass) // durable, but the task is not told yet
	go func() { answer <- r.send(id, c) }()
	sender.await()
	wantAnswer(t, "the later command", r.send(id, approveCommand("wait-7")), waitNotOpen)
	if !r.task(id).Checkpoint.GetCancelRequested() {
		t.Error("the cancel was not applied, though it came first")
	}
	sender.open()
	wantAnswer(t, "cancel", receive(t, answer), 0)
	call.open()
	r.await(id, cancelled)
	if got := r.types(id); !slices.Equal(got[len(got)-3:], []string{"STEP_INPUT", "STEP_OUTPUT", "FLOW_CANCEL"}) {
		t.Errorf("events %v", got)
	}
}

// What needs no running slot does not wait for one (A28): here the only one is taken to the end.
func TestCommandsWithoutASlot(t *testing.T) {
	oneSlot := func(t *testing.T) *rig {
		r := newRig(t, fake.Script("write"))
		r.cfg.MaxRunning = 1
		return r
	}
	t.Run("approve and cancel", func(t *testing.T) {
		r := oneSlot(t)
		inbox := newBarrier(t)
		hold := r.holdInbox(inbox)
		r.start()
		id := r.create(always)
		r.await(id, waiting)
		blocker, held := r.takeSlot()
		hold(id)
		approve := r.queue(id, approveCommand("wait-1"))
		inbox.await()
		cancel := r.queue(id, cancelCommand())
		inbox.open()
		wantAnswer(t, "cancel", receive(t, cancel), 0)
		wantAnswer(t, "approve", receive(t, approve), taskEnded)
		r.await(id, cancelled)
		if n := len(r.pool.CalledFor(id)); n > 0 {
			t.Errorf("%d calls without a slot", n)
		}
		held.open()
		r.await(blocker, success)
	})
	t.Run("refusals", func(t *testing.T) {
		r := oneSlot(t)
		r.start()
		id := r.create(always)
		r.await(id, waiting)
		blocker, held := r.takeSlot()
		wantAnswer(t, "reject of a wait that is not open", r.send(id, rejectCommand("wait-9")), waitNotOpen)
		wantAnswer(t, "reject", r.send(id, rejectCommand("wait-1")), 0)
		r.await(id, cancelled)
		held.open()
		r.await(blocker, success)
	})
	t.Run("a queued task", func(t *testing.T) {
		r := oneSlot(t)
		r.start()
		blocker, held := r.takeSlot()
		id := r.create(never)
		wantAnswer(t, "cancel", r.send(id, cancelCommand()), 0)
		r.await(id, cancelled)
		held.open()
		r.await(blocker, success)
	})
}

// A command that comes while its task's owner is leaving is answered, and so is the next one.
func TestCommandWhileTheOwnerLeaves(t *testing.T) {
	r, release, n := newRig(t, fake.Script("write")), newBarrier(t), newTask(always)
	r.pool.ReleaseFn = func(session string) {
		if session == n.ID {
			release.pass()
		}
	}
	r.start()
	id := r.createAs(n)
	r.await(id, waiting)
	wantAnswer(t, "cancel", r.send(id, cancelCommand()), 0)
	release.await() // the task has ended; its owner gives the connections back
	answer := r.queue(id, approveCommand("wait-1"))
	release.open()
	wantAnswer(t, "approve", receive(t, answer), taskEnded)
	wantAnswer(t, "approve again", r.send(id, approveCommand("wait-1")), taskEnded)
	if inbox := r.inbox(id); len(inbox) > 0 {
		t.Errorf("the inbox still holds %v", inbox)
	}
}
