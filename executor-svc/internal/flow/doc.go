// Package flow defines how a task decides what to do next: a flow is a pure function from a task's state and an input to a
// transition (new state, facts) and the actions to run.
//
// It must not know the journal, the planner or the pool. Flows do no I/O and read neither clock nor randomness, so that one engine
// runs every flow, and a simulation runs the engine.
package flow
