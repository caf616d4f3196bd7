// Package suite runs the whole of Pawl in one process: the executor, the planner, the MCP pool and the gateway, joined by
// direct calls that pass the same interceptors as calls over a network. It holds the wiring and the order in which things
// start and stop, and no logic of tasks, tools or models.
package suite
