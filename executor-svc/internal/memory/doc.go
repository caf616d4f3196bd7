// Package memory loads from the journal what a task knows of what came before it. What that is, its flow chooses (flow.Memory).
//
// It must not know the engine or any flow.
package memory
