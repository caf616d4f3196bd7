// Package coding is the flow that divides a task into subtasks and works on them in parallel lanes.
//
// It is pure: it must not know the engine, the journal, the planner or the pool.
package coding
