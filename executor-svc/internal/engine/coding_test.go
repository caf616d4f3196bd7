package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
	plannerv1 "pawl.dev/proto/gen/pawl/planner/v1"

	"pawl.dev/executor-svc/internal/fake"
	"pawl.dev/executor-svc/internal/flow/coding"
	"pawl.dev/executor-svc/internal/journal"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// subtasks returns the subtasks of "a b:a".
func subtasks(plan string) (out []*plannerv1.Subtask) {
	for _, word := range strings.Fields(plan) {
		id, needs, _ := strings.Cut(word, ":")
		out = append(out, &plannerv1.Subtask{Id: id, Title: id, DependsOn: strings.FieldsFunc(needs, func(r rune) bool { return r == ',' })})
	}
	return out
}

// newCodingTask returns a task with a plan. Its subtasks work at once.
func newCodingTask(confirm executorv1.Confirm) journal.NewTask {
	n := newTask(confirm)
	n.Head.Flow, n.Head.PlanOptions = coding.Kind, coding.Flow{}.PlanOptions(nil)
	n.Checkpoint = coding.Flow{}.Start()
	return n
}

// awaitEvent watches a task until an event fits.
func (r *rig) awaitEvent(id string, fits func(*executorv1.ExecutorEvent) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found := errors.New("found")
	err := r.e.Watch(ctx, id, 0, func(executorv1.ExecutorStatus) bool { return false }, func(e *executorv1.ExecutorEvent) error {
		if fits(e) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		r.t.Fatalf("no event fits: %v; %v", err, r.types(id))
	}
}

// ended returns the subtasks that ended, in order, as "a:COMPLETED".
func ended(events []*executorv1.ExecutorEvent) (out []string) {
	for _, e := range events {
		if c := e.GetSubtaskChanged(); c.GetTo() > executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS {
			out = append(out, e.GetSubtaskId()+":"+strings.TrimPrefix(c.GetTo().String(), "SUBTASK_STATUS_"))
		}
	}
	return out
}

// D7: independent subtasks work at once, and their calls run at once. A dependent starts after its dependencies.
func TestSubtasksWorkAtOnce(t *testing.T) {
	p := fake.Script("write")
	p.Subtasks = subtasks("a b c:a,b")
	r := newRig(t, p)
	calls := newBarrier(t)
	r.start()
	n := newCodingTask(never)
	r.holds.Store(n.ID, calls)
	id := r.createAs(n)
	calls.await()
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool {
		return e.GetSubtaskChanged().GetTo() == executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
	})
	if got := ended(r.events(id)); len(got) != 1 || got[0] == "c:COMPLETED" {
		t.Errorf("%v while the call of a dependency runs", got)
	}
	calls.open()
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.types(id))
	}
	got := ended(r.events(id))
	if slices.Sort(got); strings.Join(got, " ") != "a:COMPLETED b:COMPLETED c:COMPLETED" {
		t.Errorf("%v", got)
	}
}

// A26: each of several waits is answered alone, in any order; FLOW_STOP comes once no lane can go on.
func TestWaitsOfSeveralLanes(t *testing.T) {
	p := fake.Script("write")
	p.Subtasks = subtasks("a b c")
	r := newRig(t, p).start()
	id := r.createAs(newCodingTask(always))
	r.await(id, waiting)
	waits := r.task(id).Checkpoint.GetWaits()
	if len(waits) != 3 {
		t.Fatalf("%v", waits)
	}
	for _, w := range []int{1, 2, 0} {
		wantAnswer(t, "the approval", r.send(id, approveCommand(waits[w].GetId())), 0)
	}
	if s := r.finish(id); s != success {
		t.Errorf("%s: %v", s, r.types(id))
	}
	if n := len(r.pool.CalledFor(id)); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// A cancelled subtask stops its call alone.
func TestCancelOneSubtask(t *testing.T) {
	p := fake.Script("write")
	p.Subtasks = subtasks("a b:a")
	r := newRig(t, p)
	r.pool.CallFn = fake.Hang
	r.start()
	id := r.createAs(newCodingTask(never))
	r.awaitEvent(id, func(e *executorv1.ExecutorEvent) bool { return e.GetStepInput() != nil })
	wantAnswer(t, "the cancellation", r.send(id, &storagev1.Command{Kind: &storagev1.Command_Cancel{Cancel: &storagev1.Cancel{SubtaskId: "a"}}}), 0)
	if s := r.finish(id); s != failed {
		t.Errorf("%s: %v", s, r.types(id))
	}
	if got := strings.Join(ended(r.events(id)), " "); got != "a:CANCELLED b:CANCELLED" {
		t.Errorf("%v", got)
	}
}

// Wherever the executor crashes, each lane goes on, the log has no gap, and no tool call with a side effect is repeated.
func TestCodingCrashAtEachCommit(t *testing.T) {
	script := func() *fake.Planner {
		p := fake.Script("read", "write")
		p.Subtasks = subtasks("a b c:a,b")
		return p
	}
	dir, before := t.TempDir(), newRig(t, script())
	var copies []string
	var calls []int
	before.j.onCommit = func(_ journal.Transition, do func() error) error {
		if len(copies) > 0 {
			calls = append(calls, len(before.pool.Called()))
		}
		err := do()
		copies = append(copies, before.copyTo(dir, len(copies)))
		return err
	}
	before.start()
	id := before.createAs(newCodingTask(never))
	if s := before.finish(id); s != success {
		t.Errorf("without a crash the task is %s: %v", s, before.types(id))
	}
	if err := before.stop(); err != nil {
		t.Error(err)
	}
	calls = append(calls, len(before.pool.Called()))
	for i, path := range copies {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := newRig(t, script())
			r.path = path
			r.start()
			if end := r.finish(id); end != success {
				t.Errorf("%s, %v: %v", end, r.task(id).Checkpoint.GetError(), r.types(id))
			}
			seen := map[string]bool{}
			for _, c := range append(before.pool.Called()[:calls[i]:calls[i]], r.pool.Called()...) {
				if c.GetName() == "write" && seen[c.GetInputJson()] {
					t.Errorf("%s is repeated", c.GetInputJson())
				}
				seen[c.GetInputJson()] = true
			}
			if err := r.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
