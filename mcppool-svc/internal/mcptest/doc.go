// Package mcptest provides servers for tests: an MCP server, an authorization server, and a guard in front of an MCP server. They behave
// well unless a mode or a switch is set, and record the requests that they get. The MCP server runs as a child process (Stdio), or within the
// test over HTTP (Web, SSE). A test binary that calls Main first in its TestMain becomes the child if it is started with Stdio's environment.
// The server writes raw JSON lines, so that it can also send messages that no library would send.
package mcptest
