package history

import (
	"slices"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	storagev1 "pawl.dev/executor-svc/internal/storage/v1"
)

// Plan is a task's plan of subtasks as it is now.
type Plan struct {
	MainTask string
	Revision uint32
	// Subtasks are in the plan's order; dropped ones stay.
	Subtasks []*Subtask
}

// Subtask is a subtask as it is now. Times are nanoseconds since 1970, or 0.
type Subtask struct {
	*storagev1.PlannedSubtask
	Status             executorv1.SubtaskStatus
	Summary            string
	StartTime, EndTime int64
	// Note says why the plan change of its newest thought was not applied, or not wholly; else empty.
	Note string
	// Loops is how many times it has thought; thought is the number of the newest thought.
	Loops   uint32
	thought uint32
}

// Subtask returns the subtask with this id, or nil.
func (p *Plan) Subtask(id string) *Subtask {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Subtasks, func(s *Subtask) bool { return s.GetId() == id })
	if i < 0 {
		return nil
	}
	return p.Subtasks[i]
}

// addPlanFact applies a fact about the plan.
func (l *Log) addPlanFact(f *storagev1.Fact, now int64) {
	switch k := f.GetKind().(type) {
	case *storagev1.Fact_PlanCreated:
		l.changePlan(k.PlanCreated)
	case *storagev1.Fact_SubtaskChanged:
		s := l.Plan.Subtask(f.GetSubtaskId())
		if s == nil {
			return
		}
		s.Status = k.SubtaskChanged.GetTo()
		switch s.Status {
		case executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS:
			s.StartTime = now
		case executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED, executorv1.SubtaskStatus_SUBTASK_STATUS_FAILED, executorv1.SubtaskStatus_SUBTASK_STATUS_CANCELLED:
			s.Summary, s.EndTime = k.SubtaskChanged.GetSummary(), now
		}
	case *storagev1.Fact_Reflection:
		if s := l.Plan.Subtask(f.GetSubtaskId()); s != nil {
			s.Summary, s.Note = k.Reflection.GetSummary(), ""
		}
	case *storagev1.Fact_StatusChanged:
		if s := l.Plan.Subtask(f.GetSubtaskId()); s != nil {
			s.Note = k.StatusChanged.GetReason()
		}
	case *storagev1.Fact_Thought:
		if s := l.Plan.Subtask(f.GetSubtaskId()); s != nil && s.thought != k.Thought.GetNumber() {
			s.thought = k.Thought.GetNumber()
			s.Loops++
		}
	}
}

// changePlan replaces the plan by a new or edited one, or changes it by a revision.
func (l *Log) changePlan(p *storagev1.PlanCreated) {
	if l.Plan == nil || p.GetMainTask() != "" {
		l.Plan = &Plan{MainTask: p.GetMainTask()}
	}
	l.Plan.Revision = p.GetRevision()
	for _, s := range p.GetSubtasks() {
		status := executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
		if len(s.GetDependsOn()) > 0 {
			status = executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED
		}
		l.Plan.Subtasks = append(l.Plan.Subtasks, &Subtask{PlannedSubtask: s, Status: status})
	}
	if order := p.GetOrder(); len(order) > 0 { // others have started or ended, and come first
		slices.SortStableFunc(l.Plan.Subtasks, func(a, b *Subtask) int {
			return slices.Index(order, a.GetId()) - slices.Index(order, b.GetId())
		})
	}
}
