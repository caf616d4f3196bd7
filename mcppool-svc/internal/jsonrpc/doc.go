// Package jsonrpc reads and writes JSON-RPC messages of untrusted peers. It reads messages of bounded length from lines and from server-sent
// events, and finds the id of a message even if the message cannot be used. Its writer of lines never blocks, and reports which messages it did
// not deliver. The package must not know MCP, connections or requests.
package jsonrpc
