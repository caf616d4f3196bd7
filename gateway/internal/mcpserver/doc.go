// Package mcpserver serves MCP (streamable HTTP, revisions 2025-03-26 to 2026-07-28) in front of the pool: one server at /mcp/{server}, all active servers
// of the caller at /mcp. It keeps no sessions: what a session must know is in its signed id, and what a call must know is in the pool.
// Rights, pinning, approvals and audit are the pool's. What servers send passes through as exact JSON.
package mcpserver
