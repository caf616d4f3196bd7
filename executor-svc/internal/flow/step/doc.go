// Package step runs the steps of a task's lanes, for all flows: attempts and their outcomes, approvals, parameters, questions of tool servers,
// unknown outcomes, pause, budgets, deadlines and the end of a task. A flow gives its Rules, which decide what a lane does between steps.
// Like flows it is pure: no I/O, clock or randomness.
package step
