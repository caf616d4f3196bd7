// Package agent is the flow in which the planner chooses one step at a time until FINAL.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package agent
