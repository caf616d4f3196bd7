package coding

import (
	"math"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/flow"
	codingv1 "pawl.dev/executor-svc/internal/flow/coding/v1"
	"pawl.dev/executor-svc/internal/flow/step"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Fork implements flow.Flow: each subtask that was worked on thinks again. If none had started, the fork makes a new plan.
func (Flow) Fork(f flow.Fork) (*storagev1.Checkpoint, *storagev1.Fact) {
	c, fact := step.Fork(f)
	r, thoughts := replayed(f.Kept)
	main := &storagev1.Lane{Phase: phaseContinue}
	c.Lanes = []*storagev1.Lane{main}
	if c.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_INIT || len(thoughts) == 0 {
		main.Phase = phaseCreatePlan
		r.Subtasks = nil
	}
	for _, s := range r.Subtasks {
		if s.GetStatus() != inProgress {
			continue
		}
		c.LaneCount++
		last := thoughts[s.GetId()]
		c.Lanes = append(c.Lanes, &storagev1.Lane{
			Id: c.GetLaneCount(), Phase: phaseThink, SubtaskId: s.GetId(), Thought: last.GetNumber(), Loops: last.GetLoops(),
		})
	}
	if err := r.store(c); err != nil { // impossible: a message without required fields always encodes
		main.Phase, c.Lanes = phaseCreatePlan, c.Lanes[:1]
	}
	return c, fact
}

// replayed returns the plan after records, and the newest piece of a thought of each subtask that had started, or nil.
func replayed(records []*storagev1.Record) (*rules, map[string]*storagev1.Thought) {
	r, thoughts := &rules{graph{State: &codingv1.State{}}}, map[string]*storagev1.Thought{}
	for _, record := range records {
		for _, f := range record.GetFacts() {
			switch k := f.GetKind().(type) {
			case *storagev1.Fact_PlanCreated:
				r.replayPlan(f.GetSubtaskId(), k.PlanCreated)
			case *storagev1.Fact_SubtaskChanged:
				if s := r.subtask(f.GetSubtaskId()); s != nil {
					s.Status = k.SubtaskChanged.GetTo()
				}
				if k.SubtaskChanged.GetTo() == inProgress {
					thoughts[f.GetSubtaskId()] = nil
				}
			case *storagev1.Fact_Thought:
				thoughts[f.GetSubtaskId()] = k.Thought
			}
		}
	}
	r.changes, r.err = nil, nil
	return r, thoughts
}

// replayPlan applies the fact of a plan that was accepted before; the plan is a change if a subtask proposed it.
func (r *rules) replayPlan(subtaskID string, p *storagev1.PlanCreated) {
	if subtaskID == "" {
		_ = r.plan(nodesOf(p.GetSubtasks()), math.MaxInt)
	} else {
		_, _ = r.revise(revision{add: nodesOf(p.GetSubtasks()), drop: p.GetDropped(), order: p.GetOrder()}, math.MaxInt)
	}
	r.Revision = p.GetRevision()
}
