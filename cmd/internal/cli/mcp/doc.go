// Package mcp has the commands for MCP servers: registering, trusting, logging in to and testing them, and calling their tools.
package mcp
