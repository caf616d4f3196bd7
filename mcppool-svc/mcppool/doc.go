// Package mcppool is the MCP pool as a value: New builds it, Register registers its gRPC services, Run does its background work and Close
// ends every child process and connection. The process that embeds it, the pool's own or the suite's, provides listeners, identities
// and telemetry.
package mcppool
