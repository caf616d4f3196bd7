// Package agent is the flow in which the planner chooses one step at a time until FINAL.
//
// Each input or command has its method of draft: results are handled by methods named after the input (begun, planned, called), commands
// by verbs (approve, pause). The checkpoint's phase names the action that runs (PLAN, CALL …), or WAIT while a person has to answer; resume
// schedules the phase's action when another owner loads the task. A step usually passes through planned, start, askApproval or
// call, called and planNext.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package agent
