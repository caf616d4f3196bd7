// Package jsonrpc reads and writes JSON-RPC messages of peers that are not trusted: messages in lines and in server-sent events, of bounded
// length, whose id is known even if the message cannot be used; and a writer of lines that never blocks and knows what it did not deliver. It
// must not know MCP, connections or requests.
package jsonrpc
