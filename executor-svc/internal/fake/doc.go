// Package fake provides a planner that follows a script and an MCP pool whose tools echo, for tests. Both keep their contracts,
// and a test can observe, delay and fail their calls.
package fake
