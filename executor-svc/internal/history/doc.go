// Package history folds the facts of a task into one entry per step, which shows the step as it is now. Planners get the
// entries as the task's history, and ListSteps returns them.
package history
