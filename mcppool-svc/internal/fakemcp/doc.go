// Package fakemcp is an MCP server for tests, good or bad as they need it, as a child process: a test binary that calls
// Main first thing in its TestMain becomes the server when it is started with Stdio's environment. It speaks raw JSON
// lines, so that it can also say what no library would. It is for tests only.
package fakemcp
