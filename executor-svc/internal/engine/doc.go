// Package engine moves tasks: one owner per task folds in commands and results, asks the task's flow for the next
// transition, commits it, and runs its effects. What was committed is all that is ever shown.
//
// It must not know what a flow decides, or how an effect is run.
package engine
