// Package jsonrpc exchanges JSON-RPC messages with untrusted peers. It reads messages of bounded length from lines and from server-sent events,
// and finds the id of a message even if the message cannot be used. Its LineWriter writes without blocking, and reports which messages were
// certainly not delivered.
// The package must not know MCP, connections or requests.
package jsonrpc
