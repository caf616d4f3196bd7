// Package coding is the flow that divides a task into subtasks and works on them in parallel lanes. Lane 0 makes the plan, waits while subtasks
// are worked on, and answers. Each subtask has a lane, which thinks, makes the calls of the thought, and thinks again until the reflection says
// that the subtask is done, or a limit is reached. Calls of a thought that only read run at once, each in a lane of its own.
//
// graph.go holds the plan: dependencies, statuses and revisions. plan.go makes and changes it, subtask.go works on a subtask, and rules.go
// decides around the steps of package step.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package coding
