// Package config reads MCP servers from the `mcpServers` JSON that users already have for other MCP clients, with a few
// optional keys of our own. What it does not know is logged and left alone; what it cannot honour is an error that names
// file, line and server. It connects to nothing.
package config
