// Package executor is the executor service: tasks, steps, events and checkpoints. It is the only one that knows state.
package executor
