// Package api implements ExecutorService and AgentService: it checks requests, turns them into tasks and commands for the engine, and
// reads tasks and agents from the journal.
//
// It must not change a task: only the engine does.
package api
