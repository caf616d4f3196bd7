package clitest

import (
	executorv1 "pawl.dev/proto/gen/pawl/executor/v1"
)

// Of makes an event that of a subtask.
func Of(subtask string, ev *executorv1.ExecutorEvent) *executorv1.ExecutorEvent {
	ev.SubtaskId = subtask
	return ev
}

// Subtask returns a subtask of a plan.
func Subtask(id, title string, dependsOn ...string) *executorv1.Subtask {
	status := executorv1.SubtaskStatus_SUBTASK_STATUS_PENDING
	if len(dependsOn) > 0 {
		status = executorv1.SubtaskStatus_SUBTASK_STATUS_BLOCKED
	}
	return &executorv1.Subtask{Id: id, Title: title, DependsOn: dependsOn, Status: status}
}

// PlanCreated makes the first plan.
func PlanCreated(mainTask string, subtasks ...*executorv1.Subtask) *executorv1.ExecutorEvent {
	return event(&executorv1.PlanCreated{Plan: &executorv1.Plan{MainTask: mainTask, Subtasks: subtasks, Revision: 1}})
}

// PlanChanged adds subtasks and sets the order of those that have not started.
func PlanChanged(reason string, order []string, added ...*executorv1.Subtask) *executorv1.ExecutorEvent {
	return event(&executorv1.PlanCreated{Plan: &executorv1.Plan{Subtasks: added, Revision: 2}, Order: order, Reason: reason})
}

// SubtaskChanged gives a subtask another status.
func SubtaskChanged(id string, to executorv1.SubtaskStatus, summary string) *executorv1.ExecutorEvent {
	return Of(id, event(&executorv1.SubtaskChanged{To: to, Summary: summary}))
}

// Thought is a piece of a thought.
func Thought(subtask, thought, text string) *executorv1.ExecutorEvent {
	return Of(subtask, event(&executorv1.Thought{ThoughtId: thought, Text: text}))
}

// Reflection says what a subtask has reached.
func Reflection(subtask, summary, next string) *executorv1.ExecutorEvent {
	return Of(subtask, event(&executorv1.Reflection{Done: next == "", Summary: summary, Next: next}))
}

// FileChanged reports a changed file.
func FileChanged(subtask string, change *executorv1.FileChange) *executorv1.ExecutorEvent {
	return Of(subtask, event(change))
}

// AskPlan makes a task wait for the approval of its first plan. The test opens the wait itself with Tape.Wait.
func AskPlan(mainTask string, subtasks ...*executorv1.Subtask) *executorv1.ExecutorEvent {
	ev := PlanCreated(mainTask, subtasks...)
	ev.WaitId = "wait-plan"
	return ev
}

// PlanWait returns the wait of AskPlan, for Stop("plan").
func PlanWait() *executorv1.Wait {
	return wait("plan", &executorv1.Wait{Kind: executorv1.WaitKind_WAIT_KIND_PLAN, Message: "confirm the plan"})
}
