// Package mcp makes connections to MCP servers and calls their tools. It defines the connection (Client), the errors of
// requests (Error) and what servers may ask during a call (Question, Sample). It speaks JSON-RPC over stdio, streamable HTTP,
// HTTP+SSE and within this process, with bounded messages, raw results and cancellation, and its errors report whether a request
// may have run. Protocol types come from mark3labs/mcp-go. The package must not know the pool's sessions or gRPC.
package mcp
