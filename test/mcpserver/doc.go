// Package mcpserver is an MCP server for tests. Some of its tools fail, take long or end the server. A tool with a side
// effect writes one line per call to a file, so that a test sees what ran.
package mcpserver
