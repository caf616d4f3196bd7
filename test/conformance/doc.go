// Package conformance runs the MCP conformance suite's client scenarios against the pool, and its server scenarios against
// the gateway's MCP endpoints.
package conformance
