// Package plan defines planners, chooses the planner of a task, and holds the planner that asks a language model. It knows tools and histories,
// and nothing of providers, gRPC servers or the executor's state.
package plan
