// Package registry defines what a registered MCP server is and knows which ones exist, who owns them and who uses them. Servers
// come from configuration files in the `mcpServers` format, which it reads and never writes, and from the API, which it stores in
// its own versioned format. It decides what a user can see; the api package decides what a user may change. It connects to nothing.
package registry
