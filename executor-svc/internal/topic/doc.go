// Package topic moves messages of topics to agents and events of topics to watchers: who considers a message, the hub of watchers, and the
// dispatcher of the outbox.
//
// The package must not know flows, planners or pools; tasks only by the interface Tasks.
package topic
