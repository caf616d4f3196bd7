// Package spec says what a registered MCP server is: how it is reached, whose it is, what its operator says of its tools.
// It is plain data; storing, reading configuration files and connecting are others' business.
package spec
