// Package strict reads JSON that strangers wrote without guessing: text that two programs would read differently, because a
// key comes twice, or that would exhaust one that recurses, is refused. It knows nothing of MCP but the names of a JSON-RPC
// message's members.
package strict
