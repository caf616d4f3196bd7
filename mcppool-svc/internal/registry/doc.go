// Package registry keeps the registered MCP servers, their owners and the users' choices of active servers. Servers come from
// configuration files in the `mcpServers` format, which it only reads, and from the API. It stores the servers of the API in its own versioned
// format. It decides which servers a user can see; package api decides what a user may change. It makes no connections.
package registry
