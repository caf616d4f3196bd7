// Package flow defines how a task decides what to do next. A flow is a state machine: the engine gives it one Input at a time, and the
// flow changes the task's checkpoint in place and returns a Transition: the facts to commit with the checkpoint, and the Actions to run. The
// result of an action returns as another Input.
//
// A flow must not know the journal, the planner or the pool. It does no I/O and reads neither clock nor randomness, so that one engine
// can run every flow, and a simulation can run the engine.
package flow
