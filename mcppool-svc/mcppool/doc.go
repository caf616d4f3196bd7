// Package mcppool runs the MCP pool in a process: New builds it, Register registers its gRPC services, Run does its background work and Close
// ends every child process and connection. The process provides listeners, identities and telemetry.
package mcppool
