// Package conformance runs the MCP conformance suite's client scenarios against the pool.
package conformance
