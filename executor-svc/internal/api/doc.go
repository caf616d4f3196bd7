// Package api implements ExecutorService and AgentService: it checks requests, turns them into tasks and commands for the engine, reads
// tasks from the journal and deletes ended ones, and keeps the agents in the journal.
//
// It must not change a task: only the engine does.
package api
