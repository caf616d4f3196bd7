// Package api answers the RPCs of ExecutorService and AgentService: it checks who asks for what, and hands on to the
// engine and the journal.
//
// It must not decide how a task moves.
package api
