// Package runner runs the effects of flows: it asks the planner and calls tools through the pool, in the name of the
// task's user.
//
// It must not know the journal. What it brings back is advice or an outcome; flows decide what that means.
package runner
