// Package process runs stdio servers as child processes. Each child has its own process group and environment, is reaped as
// soon as it exits, and is ended together with its group within a bounded time. On Linux a child ends with the pool, even if the pool is
// killed. The package must not know MCP: callers read and write the pipes.
package process
