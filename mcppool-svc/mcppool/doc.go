// Package mcppool is the MCP pool as a value: New builds it, Register offers it over gRPC, Run does its background work and
// Close ends every child process and connection. The process around it, be it the pool's own or the suite's, brings
// listeners, identities and telemetry.
package mcppool
