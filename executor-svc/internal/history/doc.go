// Package history folds the facts of a task into one entry per step, which shows the step as it is now. Planners get the
// entries of ended steps as the task's history, and ListSteps returns all entries.
package history
