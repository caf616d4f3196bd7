// Package mcptest has an MCP server, an authorization server, and a guard in front of an MCP server, for tests. They behave
// well unless a mode or switch says otherwise, and record what they were sent. The MCP server runs as a child process: a
// test binary that calls Main first in its TestMain becomes the server when it is started with Stdio's environment. It
// writes raw JSON lines, so that it can also send what no library would.
package mcptest
