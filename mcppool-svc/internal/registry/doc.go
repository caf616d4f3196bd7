// Package registry keeps the registered MCP servers, their owners and the users' choices of active servers. Servers come from
// configuration files in the `mcpServers` format, which it reads and never writes, and from the API; it stores the latter in its own
// versioned format. It decides which servers a user can see; package api decides what a user may change. It connects to nothing.
package registry
