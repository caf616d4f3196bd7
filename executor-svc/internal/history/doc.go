// Package history folds the facts of a task into one entry per step, as each step is now. Planners read it as
// memory, and people as the list of steps.
package history
