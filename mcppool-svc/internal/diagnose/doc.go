// Package diagnose tries an MCP server step by step and says what is wrong with it and what to do about it. It makes a connection of
// its own, so that no other is disturbed, and calls no tool. It knows neither users nor gRPC.
package diagnose
