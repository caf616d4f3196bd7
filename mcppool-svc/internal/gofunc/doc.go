// Package gofunc is a connection to tools that are Go functions of the program around the pool: there is no MCP in between,
// and all else is as with any server. Definitions and results are MCP's JSON, which whoever makes the functions writes.
package gofunc
