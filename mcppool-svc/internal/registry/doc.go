// Package registry knows which MCP servers there are, whose they are and who uses them: those of configuration files,
// which it never changes, and those registered over the API, which it keeps in a bbolt file (or in memory alone). What is
// stored is a format of its own, versioned, never the API's messages. It decides what a user can see, not what a user
// may change.
package registry
