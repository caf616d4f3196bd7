// Package runner runs the actions of flows: it asks the planner and calls tools through the MCP pool, in the name of the task's user.
//
// It must not know the journal. Its results are advice or outcomes; flows decide what they mean.
package runner
