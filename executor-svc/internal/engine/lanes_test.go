package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	mcppoolv1 "pawl.dev/proto/gen/pawl/mcppool/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// branches returns a planner of a task with branches, such as "a:write,read b:read": each calls its tools in order. Then the main line
// calls the tools of last.
func branches(all, last string) *fake.Planner {
	lines, ids := map[string][]string{"": strings.Fields(last)}, []string{}
	for _, b := range strings.Fields(all) {
		id, tools, _ := strings.Cut(b, ":")
		lines[id], ids = strings.Split(tools, ","), append(ids, id)
	}
	return &fake.Planner{PlanFn: func(_ context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		done := map[string]int{}
		for _, h := range c.GetHistory() {
			done[h.GetBranch()]++
		}
		var open []string
		for _, id := range ids {
			if done[id] < len(lines[id]) {
				open = append(open, id)
			}
		}
		n, line := done[c.GetBranch()], lines[c.GetBranch()]
		switch {
		case c.GetBranch() == "" && len(open) > 0:
			return &plannerv1.PlanStepsResponse{Branches: open}, nil
		case n >= len(line):
			return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{ToolId: flow.Final}}}, nil
		}
		return &plannerv1.PlanStepsResponse{Steps: []*plannerv1.PlannedStep{{
			ToolId: "t/" + line[n], InputJson: fmt.Sprintf(`{"text":"%s %s %d"}`, c.GetBranch(), line[n], n+1),
			Risk: &commonv1.Risk{Level: commonv1.RiskLevel_RISK_LEVEL_LOW, Reason: "only a test"},
		}}}, nil
	}}
}

// holdBranches makes the calls of these branches wait until the channel is closed.
func (r *rig) holdBranches(names ...string) (open func()) {
	b := newBarrier(r.t)
	r.pool.Detached = true
	r.pool.CallFn = func(ctx context.Context, req *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		for _, name := range names {
			if strings.HasPrefix(req.GetInputJson(), `{"text":"`+name+" ") {
				select {
				case <-b.opened:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return send(fake.TextResult("done", false))
	}
	return b.open
}

// An answer that is applied together with the resumption of a task, of which another branch runs, is applied once.
func TestAnswerTogetherWithResumption(t *testing.T) {
	r := newRig(t, branches("a:write b:idempotent", ""))
	r.keepPool = true
	open := r.holdBranches("b")
	r.start()
	n := newTask(always)
	n.Head.Confirm = byRisk
	id := r.createAs(n)
	r.await(id, waiting)
	b := r.waitOf(id, "b")
	wantAnswer(t, "the approval of b", r.send(id, approveCommand(b)), 0)
	a := r.waitOf(id, "a")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	edit(t, r.path, func(j journal.Tasks) error {
		c := approveCommand(a)
		c.Id = "1"
		_, err := j.Send(t.Context(), id, c)
		return err
	})
	open()
	r.start()
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.types(id))
	}
	writes := 0
	for _, c := range r.pool.CalledFor(id) {
		if c.GetName() == "write" {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d calls of the approved tool, want 1: %v", writes, r.types(id))
	}
	if u := r.task(id).Checkpoint.GetUsage(); u.GetToolCalls() != 2 {
		t.Errorf("%v", u)
	}
}

// waitOf returns the id of a branch's open wait.
func (r *rig) waitOf(id, branch string) string {
	r.t.Helper()
	c := r.task(id).Checkpoint
	for _, w := range c.GetWaits() {
		if flow.LaneOf(c, w.GetLane()).GetSubtaskId() == branch && w.GetOrdinal() != 0 {
			return w.GetId()
		}
	}
	r.t.Fatalf("%s waits for nobody: %v", branch, c.GetWaits())
	return ""
}

// held returns a rig whose branches each make one call, which waits until it is released, and the task's id once all of them run.
func held(t *testing.T, confirm executorv1.Confirm, n int, configure func(*rig)) (r *rig, id string, release func()) {
	t.Helper()
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("b%d:write", i))
	}
	r = newRig(t, branches(strings.Join(all, " "), ""))
	r.keepPool, r.pool.Detached = true, true
	gate, running := newBarrier(t), make(chan struct{}, n)
	r.pool.CallFn = func(ctx context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		running <- struct{}{}
		select {
		case <-gate.opened:
			return send(fake.TextResult("done", false))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if configure != nil {
		configure(r)
	}
	r.start()
	id = r.create(confirm)
	for range n {
		receive(t, running)
	}
	return r, id, gate.open
}

// count returns how many events of this type there are.
func (r *rig) count(id, kind string) (n int) {
	r.t.Helper()
	for _, k := range r.types(id) {
		if k == kind {
			n++
		}
	}
	return n
}

// Eight branches make their calls at once; the main line goes on after the slowest (A26).
func TestEightBranchesAtOnce(t *testing.T) {
	r, id, release := held(t, never, 8, nil)
	release()
	if s := r.finish(id); s != success || r.count(id, "STEP_OUTPUT") != 8 {
		t.Errorf("%s: %v", s, r.types(id))
	}
}

// The outcomes of calls that end at the same time are committed together. On one thread, the goroutines that bring them are ready before the owner
// of the task continues; only preemption can delay some of them, so half of the rounds have to share one commit.
func TestOutcomesOfBranchesShareACommit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const n, rounds = 8, 6
	together, commits := 0, 0
	for range rounds {
		r, id, release := held(t, never, n, func(r *rig) {
			r.j.onCommit = func(tr journal.Transition, do func() error) error {
				outputs := 0
				for _, f := range tr.Record.GetFacts() {
					if isOutput(f) {
						outputs++
					}
				}
				if outputs > 0 {
					commits++
				}
				if outputs == n {
					together++
				}
				return do()
			}
		})
		release()
		if s := r.finish(id); s != success || r.count(id, "STEP_OUTPUT") != n {
			t.Errorf("%s: %v", s, r.types(id))
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
	if together < rounds/2 {
		t.Errorf("the outcomes of %d tasks with %d branches took %d commits; %d tasks needed one", rounds, n, commits, together)
	}
}

// A fast branch makes all its calls while the call of a slow one runs; the main line waits for both.
func TestSlowAndFastBranch(t *testing.T) {
	r := newRig(t, branches("fast:read,read,read slow:read", "write"))
	open := r.holdBranches("slow")
	r.start()
	id := r.create(never)
	outputs := 0
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool {
		if e.GetStepOutput() != nil {
			outputs++
		}
		return outputs == 3
	})
	if n := len(r.pool.CalledFor(id)); n != 4 {
		t.Errorf("%d calls, want 3 of the fast branch and 1 of the slow one", n)
	}
	open()
	if s := r.finish(id); s != success || len(r.pool.CalledFor(id)) != 5 {
		t.Errorf("%s: %v", s, r.types(id))
	}
}

// A cancellation stops the calls of all branches, and their outcomes are recorded (A26).
func TestCancelStopsAllBranches(t *testing.T) {
	r, id, _ := held(t, never, 4, nil)
	wantAnswer(t, "cancel", r.send(id, cancelCommand()), 0)
	r.await(id, cancelled)
	if stopped := r.pool.Seen().Stopped; len(stopped) != 4 {
		t.Errorf("stopped are %v", stopped)
	}
	if n := r.count(id, "STEP_CANCEL"); n != 4 {
		t.Errorf("%d cancelled steps: %v", n, r.types(id))
	}
}

// The outcomes of all branches' calls that end while the engine stops are recorded; no call is repeated.
func TestOutcomesOfAllBranchesDuringDrain(t *testing.T) {
	r, id, release := held(t, never, 3, func(r *rig) { r.cfg.DrainTimeout = patience })
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	release()
	if err := receive(t, stopped); err != nil {
		t.Error(err)
	}
	r.start()
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.types(id))
	}
	if n, attached := len(r.pool.CalledFor(id)), len(r.pool.Seen().Attached); n != 3 || attached != 0 {
		t.Errorf("%d calls, %d attached", n, attached)
	}
}

// After a crash the next owner attaches to the calls of all branches.
func TestRecoveryOfAllBranches(t *testing.T) {
	r, id, release := held(t, never, 3, func(r *rig) { r.cfg.DrainTimeout = time.Millisecond })
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	attached := make(chan struct{}, 3)
	r.pool.BeforeAttach = func() { attached <- struct{}{} }
	r.start()
	for range 3 {
		receive(t, attached)
	}
	release()
	if s := r.finish(id); s != success || len(r.pool.CalledFor(id)) != 3 {
		t.Errorf("%s: %v", s, r.types(id))
	}
}

// A pause lets the calls of all branches end, and starts nothing more until the task is unpaused (A27).
func TestPauseWithCallsInBranches(t *testing.T) {
	r, id, release := held(t, never, 3, nil)
	wantAnswer(t, "pause", r.send(id, &storagev1.Command{Kind: &storagev1.Command_Pause{Pause: &storagev1.Pause{}}}), 0)
	if s := r.task(id).Checkpoint.GetStatus(); s != running {
		t.Errorf("%s while calls run", s)
	}
	release()
	r.await(id, waiting)
	if n := r.count(id, "STEP_OUTPUT"); n != 3 {
		t.Errorf("%d outcomes: %v", n, r.types(id))
	}
	wantAnswer(t, "unpause", r.send(id, &storagev1.Command{Kind: &storagev1.Command_Unpause{Unpause: &storagev1.Unpause{}}}), 0)
	r.await(id, success)
}

// The deadline of a branch's wait passes while another branch's call runs: the task fails, after the call's outcome is recorded.
func TestWaitExpiresBesideABranch(t *testing.T) {
	r := newRig(t, branches("a:write b:read", ""))
	open := r.holdBranches("b")
	r.start()
	n := newTask(byRisk)
	n.Head.WaitTimeout = int64(50 * time.Millisecond)
	id := r.createAs(n)
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool { return e.GetStepError() != nil })
	if s := r.task(id).Checkpoint.GetStatus(); s != running {
		t.Errorf("%s while a call runs", s)
	}
	open()
	r.await(id, failed)
	if reason := r.task(id).Checkpoint.GetError().GetReason(); reason != commonv1.ErrorReason_ERROR_REASON_WAIT_EXPIRED || r.count(id, "STEP_OUTPUT") != 1 {
		t.Errorf("%s: %v", reason, r.types(id))
	}
}

// A task that waits in several branches and gets no slot can be cancelled; answers that start calls wait for a slot.
func TestBranchesWithoutASlot(t *testing.T) {
	r := newRig(t, branches("a:write b:write", ""))
	r.cfg.MaxRunning = 1
	r.start()
	id, other := r.create(always), r.create(always)
	r.await(id, waiting)
	r.await(other, waiting)
	_, call := r.takeSlot()
	wantAnswer(t, "the approval", r.send(other, approveCommand(r.waitOf(other, "a"))), 0) // it is stored
	wantAnswer(t, "cancel", r.send(id, cancelCommand()), 0)
	r.await(id, cancelled)
	if n := len(r.pool.CalledFor(other)); n != 0 {
		t.Errorf("%d calls without a slot", n)
	}
	call.open()
	if s := r.finish(other); s != success {
		t.Errorf("%s: %v", s, r.types(other))
	}
}

// What the planner answers for a branch after the task has ended is ignored.
func TestLateAnswerForAClosedBranch(t *testing.T) {
	p := branches("a:write b:read", "")
	plan, late := p.PlanFn, newBarrier(t)
	p.PlanFn = func(ctx context.Context, c *plannerv1.TaskContext) (*plannerv1.PlanStepsResponse, error) {
		if c.GetBranch() == "b" {
			late.pass()
		}
		return plan(ctx, c)
	}
	r := newRig(t, p).start()
	id := r.create(always)
	late.await()
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool { return e.GetStepWaitingForStart() != nil })
	wantAnswer(t, "reject", r.send(id, rejectCommand(r.waitOf(id, "a"))), 0)
	r.await(id, cancelled)
	before := len(r.events(id))
	late.open()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	r.start()
	if n := len(r.events(id)); n != before || r.count(id, "STEP_INIT") != 1 {
		t.Errorf("%d events, %d before: %v", n, before, r.types(id))
	}
}

// Calls that run in other branches count against the budget: the third is not made, and the outcomes of the first two are recorded.
func TestBudgetOfSeveralBranches(t *testing.T) {
	r := newRig(t, branches("a:write b:write c:write", ""))
	open := r.holdBranches("a", "b", "c")
	r.start()
	n := newTask(never)
	n.Head.Limits.MaxToolCalls = 2
	id := r.createAs(n)
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool { return e.GetStepCancel() != nil })
	open()
	r.await(id, failed)
	if reason := r.task(id).Checkpoint.GetError().GetReason(); reason != commonv1.ErrorReason_ERROR_REASON_BUDGET_EXCEEDED ||
		len(r.pool.CalledFor(id)) != 2 || r.count(id, "STEP_OUTPUT") != 2 {
		t.Errorf("%s: %v", reason, r.types(id))
	}
}

// A call whose intent is durable starts at once, also if another commit of the task begins at that moment.
func TestDurableCallDoesNotWaitForAnotherCommit(t *testing.T) {
	r := newRig(t, fake.Script("write"))
	began := make(chan struct{}, 1)
	r.pool.CallFn = func(_ context.Context, _ *mcppoolv1.CallToolRequest, send func(*mcppoolv1.CallToolResponse) error) error {
		began <- struct{}{}
		return send(fake.TextResult("done", false))
	}
	r.j.onCommit = func(tr journal.Transition, do func() error) error {
		for _, f := range tr.Record.GetFacts() {
			if f.GetStepInput() != "" { // the intent: meanwhile a command arrives, which is refused
				c := approveCommand("wait-9")
				c.Id = "late"
				if _, err := r.j.Store.Send(context.Background(), tr.TaskID, c); err != nil {
					t.Error(err)
				}
				r.e.Wake(tr.TaskID)
			}
		}
		if len(tr.Applied) > 0 {
			receive(t, began)
		}
		return do()
	}
	r.start()
	if id := r.create(never); r.finish(id) != success {
		t.Error(r.types(id))
	}
	if len(began) > 0 {
		t.Error("the command was not applied in a commit of its own after the intent")
	}
}
