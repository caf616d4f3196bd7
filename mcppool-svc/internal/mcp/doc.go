// Package mcp makes connections to MCP servers and calls their tools. It says what a connection is (Client), how requests
// fail (Error), and what servers may ask during a call (Question, Sample). It adds to mark3labs/mcp-go bounded lines and
// bodies, writes that never block, children in groups of their own, raw results, cancellation over every transport, and the
// knowledge whether a request can have reached the server. It is the only package that knows that library; it knows neither
// users nor sessions nor gRPC.
package mcp
