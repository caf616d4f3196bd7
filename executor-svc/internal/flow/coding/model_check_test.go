package coding

import (
	"fmt"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/state"
	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// check checks the new facts and the state.
func (m *model) check() {
	for _, f := range m.rig.facts[m.checked:] {
		if m.ended {
			m.Fatalf("%s after the end: %s", shortly(f), m.rig.all())
		}
		m.fact(f)
	}
	s := m.rig.task.State
	if n := len(m.rig.facts); n > m.checked && m.rig.facts[n-1].GetStatus() == taskWaiting && s.GetStatus() == taskRunning {
		m.Fatalf("the task goes on after %s, in which it waits: %s", shortly(m.rig.facts[n-1]), m.rig.all())
	}
	m.checked = len(m.rig.facts)
	if m.ended != state.Ended(s.GetStatus()) {
		m.Fatalf("the task is %s after %s", s.GetStatus(), m.rig.all())
	}
	if m.ended {
		return
	}
	waiting := s.GetStatus() == taskWaiting
	if waiting && len(m.rig.pending) > 0 || waiting && len(s.GetWaits()) == 0 {
		m.Fatalf("the task waits for %v while %v run: %s", s.GetWaits(), m.rig.pending, m.rig.all())
	}
	if !waiting && len(m.rig.pending) == 0 {
		m.Fatalf("the task is %s and nothing runs: %s", s.GetStatus(), m.rig.all())
	}
	m.budgets()
	busy := map[uint32]bool{}
	for _, a := range m.rig.pending {
		if busy[a.Lane] {
			m.Fatalf("two actions of lane %d run: %v: %s", a.Lane, m.rig.pending, m.rig.all())
		}
		busy[a.Lane] = true
	}
	if !s.GetCancelRequested() && s.GetFailing() == nil {
		m.lanes(s)
	}
}

// lanes: each subtask IN_PROGRESS has one lane; its calls that run at once have lanes of their own while it waits for them.
func (m *model) lanes(s *storagev1.Checkpoint) {
	working, parents := map[string]bool{}, map[uint32]int{}
	for _, l := range s.GetLanes() {
		switch {
		case l.GetId() == 0:
		case l.GetParent() != 0:
			parents[l.GetParent()]++
		case working[l.GetSubtaskId()]:
			m.Fatalf("two lanes work on %s: %v %s", l.GetSubtaskId(), s.GetLanes(), m.rig.all())
		default:
			working[l.GetSubtaskId()] = true
		}
	}
	running := 0
	for id, status := range m.subtasks {
		if status == inProgress {
			running++
		}
		if working[id] != (status == inProgress) {
			m.Fatalf("%s is %s, and has a lane is %v: %s", id, status, working[id], m.rig.all())
		}
	}
	if limit := m.rig.task.Head.GetPlanOptions().GetMaxParallel(); running > int(limit) {
		m.Fatalf("%d subtasks run, at most %d may", running, limit)
	}
	for _, l := range s.GetLanes() {
		if n := parents[l.GetId()]; n > maxCallsAtOnce || n > 0 && l.GetPhase() != storagev1.Phase_PHASE_IDLE {
			m.Fatalf("lane %d in %s has %d lanes of calls", l.GetId(), l.GetPhase(), n)
		}
	}
}

func (m *model) fact(f *storagev1.Fact) {
	attempt := fmt.Sprintf("%d/%d", f.GetOrdinal(), f.GetAttempt())
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_FlowStart:
		if m.starts++; m.starts > 1 {
			m.Fatalf("FLOW_START again: %s", m.rig.all())
		}
	case *storagev1.Fact_FlowStop:
		if f.GetStatus() != taskWaiting {
			m.Fatalf("FLOW_STOP while %s", f.GetStatus())
		}
	case *storagev1.Fact_PlanCreated:
		if f.GetSubtaskId() == "" {
			clear(m.subtasks)
		}
		for _, s := range k.PlanCreated.GetSubtasks() {
			m.subtasks[s.GetId()], m.needs[s.GetId()] = pending, s.GetDependsOn()
		}
	case *storagev1.Fact_SubtaskChanged:
		m.subtask(f.GetSubtaskId(), k.SubtaskChanged)
	case *storagev1.Fact_Thought:
		thought := fmt.Sprintf("%s %d", f.GetSubtaskId(), k.Thought.GetNumber())
		if k.Thought.GetOffset() != m.thoughts[thought] {
			m.Fatalf("a piece of thought %s at %d, want %d", thought, k.Thought.GetOffset(), m.thoughts[thought])
		}
		m.thoughts[thought] += uint64(len(k.Thought.GetText()))
	case *storagev1.Fact_StepInput:
		if _, known := m.attempts[attempt]; known {
			m.Fatalf("attempt %s begins again: %s", attempt, m.rig.all())
		}
		if m.subtasks[f.GetSubtaskId()] != inProgress {
			m.Fatalf("%s is called for %s, which is %s", attempt, f.GetSubtaskId(), m.subtasks[f.GetSubtaskId()])
		}
		m.attempts[attempt] = false
	case *storagev1.Fact_StepWaitingForStart:
		if k.StepWaitingForStart.GetOutcomeUnknown() != nil {
			m.ends(f, attempt)
		}
	case *storagev1.Fact_StepOutput, *storagev1.Fact_StepError, *storagev1.Fact_StepCancel:
		m.ends(f, attempt)
	case *storagev1.Fact_FlowSuccess, *storagev1.Fact_FlowFailed, *storagev1.Fact_FlowCancel, *storagev1.Fact_GoalNotReached:
		m.ended = true
	}
}

// ends: each attempt ends once. A fact without an attempt ends a step whose attempts have ended.
func (m *model) ends(f *storagev1.Fact, attempt string) {
	if f.GetAttempt() == 0 {
		return
	}
	if ended, known := m.attempts[attempt]; !known || ended {
		m.Fatalf("attempt %s ends twice, or without a beginning: %s", attempt, m.rig.all())
	}
	m.attempts[attempt] = true
}

// subtask: statuses change along the table, and no subtask starts before its dependencies are COMPLETED.
func (m *model) subtask(id string, c *storagev1.SubtaskChanged) {
	if m.subtasks[id] != c.GetFrom() || state.CheckSubtaskMove(c.GetFrom(), c.GetTo()) != nil {
		m.Fatalf("%s changes from %s to %s, and is %s: %s", id, c.GetFrom(), c.GetTo(), m.subtasks[id], m.rig.all())
	}
	m.subtasks[id] = c.GetTo()
	for _, d := range m.needs[id] {
		if c.GetTo() == inProgress && m.subtasks[d] != completed {
			m.Fatalf("%s starts while %s is %s", id, d, m.subtasks[d])
		}
	}
}

// checkEnd: all attempts and subtasks have ended, and the task succeeded only if it reached its goal.
func (m *model) checkEnd() {
	for attempt, ended := range m.attempts {
		if !ended {
			m.Fatalf("attempt %s has no end: %s", attempt, m.rig.all())
		}
	}
	r, err := load(m.rig.task.State)
	if err != nil {
		m.Fatal(err)
	}
	for id, status := range m.subtasks {
		if !state.SubtaskEnded(status) {
			m.Fatalf("%s is %s at the end: %s", id, status, m.rig.all())
		}
	}
	if m.rig.task.State.GetStatus() == executorv1.ExecutorStatus_EXECUTOR_STATUS_SUCCESS && !r.reached() {
		m.Fatalf("success although the goal is not reached: %s", shown(&r.graph))
	}
}
