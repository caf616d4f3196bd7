// Package flow says what a flow is: a pure function from a task's state and what just happened to a transition (new
// state, facts) and the effects to run next.
//
// It must not know the journal, the planner or the pool: no I/O, no clock, no randomness but what it is given. That is
// what lets one engine run every flow, and a simulation run the engine.
package flow
