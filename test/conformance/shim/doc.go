// Package shim is the client that the MCP conformance suite scores: a real MCP pool in this process, called over gRPC as
// a user would call it. It registers the suite's server, logs in if the server asks for it, lists and calls what the server
// offers, and answers the server's questions. Only the pool speaks MCP. Only register and schemaEcho treat a scenario specially.
package shim
