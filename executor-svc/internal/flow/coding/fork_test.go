package coding

import (
	"testing"

	"pgregory.net/rapid"

	commonv1 "pawl.dev/proto/gen/pawl/common/v1"
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// fork returns a rig with a fork of the task, which keeps its first n facts.
func (r *rig) fork(t tester, n int) *rig {
	records := func(facts []*storagev1.Fact) []*storagev1.Record {
		return []*storagev1.Record{{Facts: facts, Usage: &storagev1.Usage{}}}
	}
	c, fact := Flow{}.Fork(flow.Fork{From: "task", Seq: uint64(n), Records: records(r.facts), Kept: records(r.facts[:n])})
	out := &rig{tester: t, task: &flow.Task{ID: "fork", Head: r.task.Head, State: c, Now: r.task.Now}}
	out.facts = append(append(out.facts, r.facts[:n]...), fact)
	out.seen = len(out.facts)
	return out
}

// A fork continues the subtasks that were worked on, and makes a new plan if none had started.
func TestFork(t *testing.T) {
	r := newRig(t)
	r.plan("a b:a c")
	r.thinks("a", calls("run"))
	r.called("a", flow.Called{})
	n := len(r.facts)
	r.thinks("a", done(""))
	r.thinks("c", calls("run"))
	r.called("c", flow.Called{})
	end := len(r.facts)

	f := r.fork(t, n)
	f.resume(false)
	f.want("")
	for _, id := range []string{"a", "c", "b"} {
		f.thinks(id, calls("run"))
		f.called(id, flow.Called{})
		f.thinks(id, done(""))
	}
	f.answer()
	f.status(taskSuccess)
	if last := f.task.State.GetStepCount(); last != 4 {
		t.Errorf("%d steps", last)
	}

	f = r.fork(t, end)
	f.resume(false)
	f.thinks("b", done(""))
	f.thinks("c", done(""))
	f.answer()
	f.status(taskSuccess)

	f = r.fork(t, 3) // before a subtask has started
	f.resume(false)
	f.plan("x")
	f.want("Plan2 x:IN_PROGRESS")
}

// A thought that broke off and was started again is one loop, also for a fork.
func TestForkCountsLoops(t *testing.T) {
	r := newRig(t, func(h *storagev1.TaskHead) { h.PlanOptions = &executorv1.PlanOptions{MaxLoops: 3} })
	r.plan("a")
	for range 3 {
		r.must(1, flow.Thinking{Text: "half"})
		r.crash()
	}
	r.thinks("a", flow.Thought{Text: "whole", Steps: calls("run").Steps})
	r.called("a", flow.Called{})
	f := r.fork(t, len(r.facts))
	f.resume(false)
	f.events()
	for range 3 {
		f.status(taskRunning)
		f.thinks("a", calls("run"))
		f.events()
		f.called("a", flow.Called{})
	}
	f.want("a/4:StepOutput a:FAILED")
}

// A task that cannot continue ends, with its calls and subtasks.
func TestFail(t *testing.T) {
	r := newRig(t)
	r.plan("a b:a")
	r.thinks("a", calls("run"))
	r.events()
	tr, err := Flow{}.Fail(r.task, &storagev1.ErrorNote{ErrMsg: "a defect"})
	if err != nil {
		t.Fatal(err)
	}
	r.take(r.task.State, tr)
	r.want("a/1:StepError,RECOVERABLE,STOP a:CANCELLED b:CANCELLED FlowFailed")
	r.status(taskFailed)
}

// Whatever happened before, and wherever a task is forked, the fork ends and follows the rules.
func TestForksHoldWhateverHappens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := newModel(t)
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			if !first.ended {
				first.move()
				first.check()
			}
		}
		ends := step.Ends([]*storagev1.Record{{Facts: first.rig.facts}})
		if len(ends) == 0 {
			return
		}
		seq := rapid.SampledFrom(ends).Draw(t, "forked at").Seq
		m := newModel(t)
		m.rig = first.rig.fork(t, int(seq))
		m.starts, m.checked, m.ended = 0, 0, false
		flow.AddUsage(&m.spent, m.rig.task.State.GetUsage())
		m.clear()
		for _, f := range m.rig.facts {
			m.fact(f)
		}
		m.checked = len(m.rig.facts)
		for attempt, ended := range m.attempts {
			if !ended { // it ran when the task was forked
				delete(m.attempts, attempt)
			}
		}
		m.rig.resume(false)
		m.check()
		m.finish()
	})
}

// A call whose outcome the fork does not know needs a person's approval, also if it belongs to another subtask.
func TestForkKeepsUnknownCalls(t *testing.T) {
	r := newRig(t)
	r.plan("a b")
	r.thinks("a", calls("run"))
	r.thinks("b", calls("read"))
	r.called("b", flow.Called{})
	f := r.fork(t, len(r.facts))
	f.resume(false)
	f.thinks("a", calls("run"))
	f.status(taskRunning) // b goes on
	waits := f.task.State.GetWaits()
	if len(waits) != 1 || waits[0].GetKind() != executorv1.WaitKind_WAIT_KIND_APPROVAL || f.task.State.GetLanes()[1].GetStep().GetOutcome() != commonv1.Outcome_OUTCOME_UNSPECIFIED {
		t.Errorf("%v", f.task.State)
	}
}
