// Package jsonrpc exchanges JSON-RPC messages with untrusted peers. It reads messages of bounded length from lines and from server-sent events,
// and finds the id of a message even if the message cannot be used. Its LineWriter never blocks, and reports whether a message was delivered.
// The package must not know MCP, connections or requests.
package jsonrpc
