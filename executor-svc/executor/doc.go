// Package executor is the executor service: tasks, steps, events and checkpoints. No other service knows task state.
package executor
