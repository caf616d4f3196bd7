// Package engine runs tasks: one owner per task applies commands and results, asks the task's flow for the next transition, commits
// it, and runs its actions. Only committed events are visible.
//
// It must not know what a flow decides, or how an action is run.
package engine
