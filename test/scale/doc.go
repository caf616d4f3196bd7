// Package scale runs an executor with several MCP pool processes, which are killed, added and drained under load: calls of one
// user and server stay with one pool, nothing that writes is done twice, and a drained pool is not noticed.
package scale
