// Package shim is the client that the MCP conformance suite scores: a real MCP pool in this process, called over gRPC as
// a user would call it. It registers the suite's server, logs in where that asks for it, lists what there is and calls it,
// and answers what the server asks. It speaks no MCP itself, and knows of no check of the suite.
package shim
