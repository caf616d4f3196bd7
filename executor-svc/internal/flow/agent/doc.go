// Package agent is the flow in which the planner chooses one step at a time until FINAL.
//
// A method of draft handles each input of package flow: planned handles flow.Planned, called handles flow.Called. Methods named by a verb
// (approve, pause) handle the commands. These methods change the checkpoint, add facts and schedule actions. The checkpoint's phase names the
// action that runs (PLAN, CALL), or is WAIT while a person has to answer. resume schedules the phase's action again, for example after another
// owner loaded the task. A usual step passes through planned, start, askApproval, approve, call, called and planNext.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package agent
