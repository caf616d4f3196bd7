package executortest

import (
	"maps"
	"slices"

	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

const (
	waiting = executorv1.ExecutorStatus_EXECUTOR_STATUS_WAITING
	running = executorv1.ExecutorStatus_EXECUTOR_STATUS_RUNNING
)

// checkStop checks that FLOW_STOP comes when it is due. Questions that are asked together, and a pause, come before it.
func (c *checker) checkStop(e *executorv1.ExecutorEvent) {
	together := c.last.GetType() == forInput && e.GetType() == forInput || e.GetType() == statusChanged && status(e) == waiting
	if c.stopDue && e.GetType() != flowStop && !together {
		c.report("%s is followed by %s, want FLOW_STOP", c.last.GetType(), e.GetType())
	}
	if e.GetType() != flowStop {
		return
	}
	if s := status(e); s != waiting && s != 0 {
		c.report("FLOW_STOP while the task is %s", s)
	}
	named := e.GetFlowStop().GetWaitIds()
	for _, id := range slices.Sorted(maps.Keys(c.openWaits)) {
		if e.GetFlowStop() != nil && !slices.Contains(named, id) {
			c.report("FLOW_STOP does not name %s, which is open", id)
		}
	}
	for _, id := range named {
		if _, open := c.openWaits[id]; c.waitIDs[id] && !open {
			c.report("FLOW_STOP names %s, which is not open", id)
		}
	}
}

// noteStop checks that nothing runs while the task waits, and notes that FLOW_STOP has to follow: after a question, unless the task still
// runs, and after any event with which the task begins to wait.
func (c *checker) noteStop(e *executorv1.ExecutorEvent) {
	if status(e) == waiting || e.GetType() == flowStop {
		c.checkNothingRuns(e)
	}
	asks := e.GetType() == forStart || e.GetType() == forParam || e.GetType() == forInput
	if asks && status(e) == running && c.revision == 0 && e.GetSubtaskId() == "" {
		c.report("%s leaves the task RUNNING, but nothing else can run", e.GetType())
	}
	begins := status(e) == waiting && status(c.last) != waiting
	c.stopDue = e.GetType() != flowStop && (c.stopDue || begins || asks && status(e) != running)
	c.last = e
}

func (c *checker) checkNothingRuns(e *executorv1.ExecutorEvent) {
	for _, s := range c.sortedSteps() {
		if s.running != 0 && !c.asking(s) {
			c.report("%s while attempt %s/%d runs", e.GetType(), s.id, s.running)
		}
	}
}

func status(e *executorv1.ExecutorEvent) executorv1.ExecutorStatus {
	return e.GetFlow().GetExecutorStatus()
}

// asking reports whether the running attempt of a step waits for a person.
func (c *checker) asking(s *stepCheck) bool {
	for _, about := range c.openWaits {
		if about == s.id {
			return true
		}
	}
	return false
}
