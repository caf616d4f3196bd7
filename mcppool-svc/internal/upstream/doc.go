// Package upstream says, in the pool's own words, what a connection to an MCP server is and how a request to one can
// fail. The adapter under it (mcp) speak the protocol; what stands on it (conn, catalog, call) never sees the
// library. It knows neither users nor gRPC.
package upstream
