package executortest

import (
	"maps"
	"slices"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"

	"pawl.dev/executor-svc/internal/state"
)

const (
	pending    = executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	inProgress = executorv1.SubtaskStatus_SUBTASK_STATUS_IN_PROGRESS
	completed  = executorv1.SubtaskStatus_SUBTASK_STATUS_COMPLETED
)

// subtaskCheck is a subtask of the plan.
type subtaskCheck struct {
	status    executorv1.SubtaskStatus
	dependsOn []string
}

// checkPlan checks the events of a task with a plan. The revisions of the plan increase. Statuses of subtasks change along the table (D7),
// and a subtask is IN_PROGRESS only after all that it depends on are COMPLETED. Attempts begin, and thoughts are thought, only in subtasks
// that are IN_PROGRESS, and none runs in a subtask that has ended. At the end of the task all subtasks have ended.
func (c *checker) checkPlan(e *executorv1.ExecutorEvent) {
	id := e.GetSubtaskId()
	switch e.GetType() {
	case planCreated:
		c.setPlan(e)
	case subtaskChanged:
		c.changeSubtask(id, e.GetSubtaskChanged())
	case thought:
		c.addPiece(id+"/"+e.GetThought().GetThoughtId(), e.GetThought().GetOffset(), e.GetThought().GetText())
		c.checkWorkedOn(e)
	case stepInput:
		c.checkWorkedOn(e)
	}
}

func (c *checker) checkWorkedOn(e *executorv1.ExecutorEvent) {
	if s := c.subtasks[e.GetSubtaskId()]; c.revision != 0 && (s == nil || s.status != inProgress) {
		c.report("%s in subtask %q, which is not worked on", e.GetType(), e.GetSubtaskId())
	}
}

func (c *checker) setPlan(e *executorv1.ExecutorEvent) {
	p := e.GetPlanCreated().GetPlan()
	if p.GetRevision() <= c.revision {
		c.report("the plan has revision %d after %d", p.GetRevision(), c.revision)
	}
	if c.revision == 0 || p.GetMainTask() != "" { // a whole plan
		clear(c.subtasks)
	}
	c.revision = p.GetRevision()
	for _, s := range p.GetSubtasks() {
		if c.subtasks[s.GetId()] != nil {
			c.report("subtask %s is added again", s.GetId())
		}
		c.subtasks[s.GetId()] = &subtaskCheck{pending, s.GetDependsOn()}
	}
	if wait := e.GetWaitId(); wait != "" {
		if c.waitIDs[wait] {
			c.report("%s is asked again", wait)
		}
		c.waitIDs[wait], c.openWaits[wait] = true, ""
	}
}

func (c *checker) changeSubtask(id string, change *executorv1.SubtaskChanged) {
	s := c.subtasks[id]
	if s == nil {
		c.report("subtask %s changes, but is not in the plan", id)
		return
	}
	if change.GetFrom() != s.status {
		c.report("subtask %s changes from %s, but is %s", id, change.GetFrom(), s.status)
	}
	if err := state.CheckSubtaskMove(s.status, change.GetTo()); err != nil || s.status == change.GetTo() {
		c.report("subtask %s changes from %s to %s", id, s.status, change.GetTo())
	}
	s.status = change.GetTo()
	for _, d := range s.dependsOn {
		if s.status == inProgress && (c.subtasks[d] == nil || c.subtasks[d].status != completed) {
			c.report("subtask %s starts before %s, on which it depends, is COMPLETED", id, d)
		}
	}
	for _, open := range c.sortedSteps() {
		if state.SubtaskEnded(s.status) && open.subtask == id && open.running != 0 {
			c.report("subtask %s ends while attempt %s/%d runs", id, open.id, open.running)
		}
	}
}

func (c *checker) checkSubtasksEnded() {
	for _, id := range slices.Sorted(maps.Keys(c.subtasks)) {
		if s := c.subtasks[id]; !state.SubtaskEnded(s.status) {
			c.report("the task has ended, and subtask %s is %s", id, s.status)
		}
	}
}
