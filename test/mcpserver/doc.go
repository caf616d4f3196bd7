// Package mcpserver is an MCP server for tests: tools with different effects, that fail, that take
// their time, and that die. A tool with an effect writes one line per call to a file, so that a test sees what ran.
package mcpserver
