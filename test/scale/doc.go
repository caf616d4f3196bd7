// Package scale runs an executor with several MCP pool processes, which are killed, added and drained under load: calls of one
// user and server stay with one pool, no write happens twice, and no client notices that a pool is drained.
package scale
