// Package mcp makes connections to MCP servers and calls their tools. It defines the connection (Client), the errors of
// requests (Error) and what servers may ask during a call (Question, Sample), and speaks JSON-RPC over stdio, streamable HTTP,
// HTTP+SSE and within this process: with bounded messages, raw results, cancellation, and proof of whether a request can have
// reached the server. Protocol types come from mark3labs/mcp-go. It must not know users, sessions or gRPC.
package mcp
