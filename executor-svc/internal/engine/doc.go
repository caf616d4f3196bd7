// Package engine runs tasks: each running task has one owner, which passes commands and the results of actions to the task's flow, commits
// the transitions that the flow returns, and runs their actions. Only committed events are visible.
//
// It must not know how a flow decides, or how an action is run.
package engine
