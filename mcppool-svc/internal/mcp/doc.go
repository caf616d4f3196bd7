// Package mcp makes connections to MCP servers with mark3labs/mcp-go and adds what that library leaves to its user:
// bounded lines and bodies, writes that never block, children in groups of their own, raw results, cancellation over every
// transport, and the knowledge whether a request can have reached the server. It is the only package that knows the
// library; it knows neither users nor sessions nor gRPC.
package mcp
