// Package state is the one place that knows which moves of tasks and steps exist (A4–A6).
//
// It must not know who moves them, or why.
package state
